// Memory of storages that comes and goes.
#pragma once

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Tensor.h>

#include "shim.h"

namespace toma {

// Reads nothing that a thread changes which moves the storage.
toma_use use_of(c10::StorageImpl& storage, c10::Device device, bool writes);

bool is_away(const c10::StorageImpl& storage) noexcept;

// Told by the storage that dies.
uint64_t told_of_drop(void* away) noexcept;

// Those of a tensor that has no memory of its own.
template <class F>
void each_part_of(const at::Tensor& tensor, const F& body) {
  if (tensor.layout() == c10::kSparse) {
    const auto& sparse = *static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
    body(sparse.indices());
    body(sparse.values());
  } else if (tensor.layout() == c10::kSparseCsr || tensor.layout() == c10::kSparseCsc || tensor.layout() == c10::kSparseBsr || tensor.layout() == c10::kSparseBsc) {
    const auto& sparse = *static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
    body(sparse.compressed_indices());
    body(sparse.plain_indices());
    body(sparse.values());
  }
}

}  // namespace toma
