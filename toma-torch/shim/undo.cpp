// Undoing the changes of a region that was only measured.

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

// Called before the memory is written for the first time.
void Undo::write(const at::Tensor& tensor) {
  const auto* storage = storage_of(tensor);
  const auto is_same = [&](const Written& other) { return storage_of(other.tensor) == storage; };
  if (std::any_of(written.begin(), written.end(), is_same)) {
    return;
  }
  // Copies the whole memory, of which the tensor may be a part.
  auto whole = alias_of(tensor);
  whole.unsafeGetTensorImpl()->set_storage_offset(0);
  whole.unsafeGetTensorImpl()->set_sizes_contiguous(static_cast<int64_t>(storage->nbytes() / tensor.itemsize()));
  written.push_back({whole, copy_of(whole), version_of(tensor)});
}

void Undo::draws(const Random& state) {
  const auto is_of = [&](const Random& other) { return other.generator() == state.generator(); };
  const auto before = std::find_if(seeds.begin(), seeds.end(), is_of);
  if (std::none_of(drawn.begin(), drawn.end(), is_of)) {
    drawn.push_back(before == seeds.end() ? state : *before);
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
  for (const auto& state : seeds) {
    state.undo_seed();
  }
  for (const auto& state : drawn) {
    state.set();
  }
  // The region outlives this where its costs are kept.
  written.clear();
  gradients.clear();
  drawn.clear();
}

}  // namespace toma
