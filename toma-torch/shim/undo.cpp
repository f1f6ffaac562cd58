// Putting back what a region that was only measured has changed.

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "guard.h"
#include "tape.h"

namespace toma {

at::Tensor copy_of(const at::Tensor& tensor) {
  const Exempt exempt;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return tensor.clone();
}

// Before it is written for the first time.
void Undo::write(const at::Tensor& tensor) {
  const auto* storage = storage_of(tensor);
  const auto is_same = [&](const Written& other) { return storage_of(other.tensor) == storage; };
  if (std::any_of(written.begin(), written.end(), is_same)) {
    return;
  }
  // All of the memory, of which the tensor may be a part.
  auto whole = alias_of(tensor);
  whole.unsafeGetTensorImpl()->set_storage_offset(0);
  whole.unsafeGetTensorImpl()->set_sizes_contiguous(static_cast<int64_t>(storage->nbytes() / tensor.itemsize()));
  written.push_back({whole, copy_of(whole), version_of(tensor)});
}

void Undo::random(const Random& state) {
  const auto is_of = [&](const Random& other) { return other.generator() == state.generator(); };
  if (std::none_of(states.begin(), states.end(), is_of)) {
    states.push_back(state);
  }
}

void Undo::all() {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (auto& [tensor, before, version] : written) {
    tensor.copy_(before);
    if (!tensor.is_inference()) {
      auto counter = tensor.unsafeGetTensorImpl()->version_counter();
      counter.set_version(version);
    }
  }
  for (auto& [variable, gradient] : gradients) {
    variable.mutable_grad() = gradient;
  }
  for (const auto& state : states) {
    // The region drew from a generator of its own on the CPU.
    state.generator().device().is_cpu() ? state.undo_seed() : state.set();
  }
}

}  // namespace toma
