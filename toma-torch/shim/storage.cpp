// Which memory a tensor is in.

#include <ATen/core/Tensor.h>

#include "shim.h"

// The storage's own address, which views share; a tensor that was given other memory keeps it.
const void* toma_storage_identity(const void* tensor) noexcept {
  const auto& asked = *static_cast<const at::Tensor*>(tensor);
  return asked.defined() && asked.has_storage() ? asked.storage().unsafeGetStorageImpl() : nullptr;
}
