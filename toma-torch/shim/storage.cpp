// Which memory a tensor is in.

#include <ATen/core/Tensor.h>

#include "shim.h"

namespace {

uint64_t address_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return 0;
  }
  return reinterpret_cast<uintptr_t>(tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
}

}  // namespace

// The storage's own address, which views share; a tensor that was given other memory keeps it.
const void* toma_storage_identity(const void* tensor) noexcept {
  const auto& asked = *static_cast<const at::Tensor*>(tensor);
  return asked.defined() && asked.has_storage() ? asked.storage().unsafeGetStorageImpl() : nullptr;
}

// Where the memory of a tensor begins; of a sparse one, that of its indices and that of its values.
void toma_storage_addresses(const void* tensor, bool of_gradient, uint64_t* out) noexcept {
  out[0] = out[1] = 0;
  const auto& asked = *static_cast<const at::Tensor*>(tensor);
  if (!asked.defined()) {
    return;
  }
  try {
    const auto& of = of_gradient ? asked.grad() : asked;
    if (of.defined() && of.layout() == c10::kSparse) {
      out[0] = address_of(of._indices());
      out[1] = address_of(of._values());
    } else {
      out[0] = address_of(of);
    }
  } catch (const std::exception&) {
    // What has no memory of its own is nowhere.
  }
}
