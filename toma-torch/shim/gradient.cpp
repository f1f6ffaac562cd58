// Gradients as handles: set without a copy, and removed again.

#include "guard.h"
#include "operators.h"

int32_t toma_gradient_set(const void* variable, const void* gradient, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    toma::tensor_of(variable).mutable_grad() = gradient == nullptr ? at::Tensor() : toma::tensor_of(gradient);
  });
}

const void* toma_tensor_identity(const void* tensor) noexcept { return toma::tensor_of(tensor).unsafeGetTensorImpl(); }

int32_t toma_tensor_is_sole(const void* tensor, bool* out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto& handle = toma::tensor_of(tensor);
    *out = handle.use_count() == 1 && handle.storage().use_count() == 1 && handle.is_non_overlapping_and_dense();
  });
}
