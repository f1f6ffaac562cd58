// Memory of devices, through the interface all of libtorch's device allocators share.

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "guard.h"
#include "shim.h"

namespace {

c10::DeviceAllocator& allocator_of(int32_t type, int32_t index) {
  return *c10::getDeviceAllocator(toma::existing_kind(type, index));
}

uint64_t natural(int64_t number) { return number < 0 ? 0 : static_cast<uint64_t>(number); }

toma_stats stats_of(c10::DeviceAllocator& allocator, int32_t index) {
  // Before its first allocation it has counted nothing, and refuses to say so.
  if (!allocator.initialized()) {
    return {};
  }
  constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = allocator.getDeviceStats(static_cast<c10::DeviceIndex>(index));
  const auto& allocated = stats.allocated_bytes[all];
  const auto& reserved = stats.reserved_bytes[all];
  return {
      natural(allocated.current), natural(reserved.current), natural(allocated.peak), natural(reserved.peak),
      natural(stats.allocation[all].allocated), natural(stats.num_alloc_retries), natural(stats.num_ooms),
  };
}

}  // namespace

// Neither the guard nor the allocator may be asked before it is known that there is a device: both
// exist in a libtorch that was built for devices this machine does not have.
c10::DeviceType toma::existing_kind(int32_t type, int32_t index) {
  const auto device = kind_of(type);
  const int32_t count =
      c10::impl::hasDeviceGuardImpl(device) ? c10::impl::getDeviceGuardImpl(device)->deviceCount() : 0;
  if (index < 0 || index >= count) {
    throw NoDevice(
        "no device " + c10::DeviceTypeName(device, true) + ":" + std::to_string(index) + ": libtorch sees " +
        std::to_string(count) + " of this kind");
  }
  return device;
}

int32_t toma_device_stats(int32_t type, int32_t index, toma_stats* out, toma_error* error) noexcept {
  return toma::guarded(error, [&] { *out = stats_of(allocator_of(type, index), index); });
}

int32_t toma_device_memory(int32_t type, int32_t index, uint64_t* free, uint64_t* total, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto [unused, all] = allocator_of(type, index).getMemoryInfo(static_cast<c10::DeviceIndex>(index));
    *free = unused;
    *total = all;
  });
}

// Of all devices of the kind at once: the interface knows no finer release.
int32_t toma_device_release(int32_t type, int32_t index, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    auto& allocator = allocator_of(type, index);
    if (allocator.initialized()) {
      allocator.emptyCache();
    }
  });
}

int32_t toma_device_reset_peak(int32_t type, int32_t index, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    auto& allocator = allocator_of(type, index);
    if (allocator.initialized()) {
      allocator.resetPeakStats(static_cast<c10::DeviceIndex>(index));
    }
  });
}
