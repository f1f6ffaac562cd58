// The second user of the mode key: what operators use is there while they run.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "operators.h"

namespace toma {

// Whether operators of this thread, or of a backward's thread that it has been handed on to, are told.
bool is_offloading() noexcept;

// How often this thread has entered.
int32_t& entered() noexcept;

// Runs an operator that has come with these keys.
void run_offloaded(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// While one of these lives, the tape sees no calls of this thread, and what manages storages sees those it would see
// without the tape.
class BelowTape {
 public:
  BelowTape();
  ~BelowTape();
  BelowTape(const BelowTape&) = delete;
  BelowTape& operator=(const BelowTape&) = delete;

  static int32_t& depth() noexcept;

 private:
  const bool excludes;
};

}  // namespace toma
