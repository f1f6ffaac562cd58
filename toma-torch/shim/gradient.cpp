// Gradients as handles: set without a copy, and removed again.

#include <ATen/core/Tensor.h>

#include "guard.h"
#include "shim.h"

namespace {

const at::Tensor& tensor_of(const void* tensor) { return *static_cast<const at::Tensor*>(tensor); }

}  // namespace

int32_t toma_gradient_set(const void* variable, const void* gradient, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    tensor_of(variable).mutable_grad() = gradient == nullptr ? at::Tensor() : tensor_of(gradient);
  });
}

const void* toma_tensor_identity(const void* tensor) noexcept { return tensor_of(tensor).unsafeGetTensorImpl(); }

int32_t toma_tensor_is_sole(const void* tensor, bool* out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto& typed = tensor_of(tensor);
    *out = typed.use_count() == 1 && typed.storage().use_count() == 1 && typed.is_non_overlapping_and_dense();
  });
}
