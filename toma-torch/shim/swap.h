// Memory of storages that is evicted and fetched.
#pragma once

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>

#include "shim.h"

namespace toma {

// Reads nothing that changes while another thread moves the storage.
toma_use use_of(c10::StorageImpl& storage, c10::Device device, bool writes);

bool is_evicted(const c10::StorageImpl& storage) noexcept;

// Counters by address of a storage, two for each. Storages share counters, so one is rarely taken for counted that is
// not: both of its counters must then be those of others.
class Counters {
 public:
  // Halves of the index select the two counters.
  static uint32_t index_of(const void* storage) noexcept {
    return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(storage) >> 4) * 0x9e3779b97f4a7c15 >> 32);
  }

  void add(uint32_t index) noexcept { ++low[index & 0xffff], ++high[index >> 16]; }
  void remove(uint32_t index) noexcept { --low[index & 0xffff], --high[index >> 16]; }
  bool has(uint32_t index) const noexcept { return low[index & 0xffff] != 0 && high[index >> 16] != 0; }

 private:
  std::array<std::atomic<uint32_t>, 1 << 16> low{}, high{};
};

// Number of operators of threads that have not entered, by the storages that they use.
inline Counters in_use;

// Number of times that a storage is remembered, as managers do with the storages that they know.
inline Counters known;

// Called when an evicted storage dies; returns its bytes.
uint64_t report_dropped(void* stand_in) noexcept;

// Visits the parts of a tensor that has no memory of its own.
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
