// Data of CUDA's allocator beyond the interface that all allocators share.
//
// # Why
//
// Its class is in libtorch's headers, which need a few type names of CUDA's: the folder `cuda` has those. Only
// functions of its virtual table are called. So this compiles and links without CUDA, and runs where there is a device.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstddef>

#include "shim.h"

namespace toma {

// `allocator` is that of CUDA, which has this class with every backend.
inline c10::cuda::CUDACachingAllocator::CUDAAllocator& of_cuda(c10::DeviceAllocator& allocator) {
  return static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator&>(allocator);
}

// Bytes of a device that the allocator may reserve.
inline uint64_t allowed_by_fraction(c10::DeviceAllocator& allocator, c10::DeviceIndex index, uint64_t total) {
  const auto fraction = of_cuda(allocator).getMemoryFraction(index);
  return fraction < 1 ? static_cast<uint64_t>(fraction * static_cast<double>(total)) : total;
}

// Leaves out free memory of expandable segments, which can be mapped elsewhere.
inline size_t parts_of(c10::DeviceAllocator& allocator, c10::DeviceIndex index, toma_part* parts, size_t most) {
  size_t count = 0;
  for (const auto& segment : of_cuda(allocator).snapshot({0, 0}, false).segments) {
    if (segment.device != index) {
      continue;
    }
    const bool serves_all = segment.stream == nullptr && segment.owner_private_pool_id == c10::MempoolId_t{0, 0};
    bool begins = true;
    for (const auto& block : segment.blocks) {
      const bool is_used = block.allocated || block.active;
      if (segment.is_expandable && !is_used) {
        continue;
      }
      if (count < most) {
        const auto requested = block.allocated ? block.requested_size : block.size;
        parts[count] = {block.size, requested, begins, !segment.is_large, is_used, serves_all};
      }
      begins = false;
      count++;
    }
  }
  return count;
}

}  // namespace toma
