// Taking rows of an evicted table from the host, without fetching the table.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "operators.h"
#include "shim.h"

namespace toma {

// An operator that takes rows of its first argument.
struct Gather {
  // None if a gradient is wanted, or if moving the table costs no more than moving the result.
  static std::optional<Gather> of(const Operator& operation, const torch::jit::Stack& stack);

  // Runs the operator on the host, with the evicted bytes in place of the table.
  void run(const c10::OperatorHandle& op, torch::jit::Stack& stack, const toma_offloading& callbacks, const toma_use& use) const;

  at::Tensor table, rows;
};

}  // namespace toma
