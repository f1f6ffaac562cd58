// Rows of a table that is outside of its device are taken where it is.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "operators.h"
#include "shim.h"

namespace toma {

// An operator that takes rows of its first argument.
struct Gather {
  // None where a gradient is wanted, or where to move the table costs no more than to move the result.
  static std::optional<Gather> of(const Operator& operation, const torch::jit::Stack& stack);

  // Runs it on the host, with the bytes that are outside in the table's place.
  void run(const c10::OperatorHandle& op, torch::jit::Stack& stack, const toma_offloading& told, const toma_use& use) const;

  at::Tensor table, rows;
};

// As an exception of libtorch's.
[[noreturn]] void raise(int32_t code, const toma_error& error);

}  // namespace toma
