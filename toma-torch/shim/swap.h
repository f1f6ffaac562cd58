// Memory of storages that comes and goes.
#pragma once

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>

#include "shim.h"

namespace toma {

// Reads nothing that a thread changes which moves the storage.
toma_use use_of(c10::StorageImpl& storage, c10::Device device, bool writes);

bool is_away(const c10::StorageImpl& storage) noexcept;

// Storages by their addresses. Those that meet count together, and so are taken for in use or known too often.
struct Counters {
  static uint32_t place_of(const void* storage) noexcept {
    return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(storage) >> 4) * 0x9e3779b97f4a7c15 >> 52);
  }

  std::array<std::atomic<uint32_t>, 4096> at{};
};

// How many operators of threads that have not entered use a storage.
inline Counters in_use;

// How often a storage is remembered, as those are that a manager knows.
inline Counters known;

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
