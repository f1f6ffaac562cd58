// The second user of the mode key: storages of operators are fetched before they run.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "operators.h"

namespace toma {

// True if operators of this thread are reported, or of a backward's thread that inherited this.
bool is_offloading() noexcept;

// Number of times that this thread has entered.
int32_t& entered() noexcept;

// Runs an operator that was dispatched with these keys.
void run_offloaded(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// While one of these is alive, the tape receives no calls of this thread, and offloading receives those that it would
// receive without the tape.
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
