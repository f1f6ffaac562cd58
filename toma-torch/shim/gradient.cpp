// Gradients as handles: set without a copy, and removed again.

#include "guard.h"
#include "operators.h"

int32_t toma_gradient_set(const void* variable, const void* gradient, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    toma::tensor_of(variable).mutable_grad() = gradient == nullptr ? at::Tensor() : toma::tensor_of(gradient);
  });
}

void toma_gradient_print(const void* variable, uint64_t* out) noexcept {
  const auto* impl = toma::tensor_of(variable).unsafeGetTensorImpl();
  // The tensor's own method would warn of variables that are no leaves.
  const auto& gradient = impl->grad();
  out[0] = gradient.defined() ? reinterpret_cast<uint64_t>(gradient.unsafeGetTensorImpl()) : 0;
  out[1] = gradient.defined() ? toma::version_of(gradient) : 0;
}

const void* toma_tensor_identity(const void* tensor) noexcept { return toma::tensor_of(tensor).unsafeGetTensorImpl(); }

int32_t toma_tensor_is_sole(const void* tensor, bool* out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto& handle = toma::tensor_of(tensor);
    *out = handle.use_count() == 1 && handle.storage().use_count() == 1 && handle.is_non_overlapping_and_dense();
  });
}
