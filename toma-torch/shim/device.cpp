// Memory of devices, through the interface that all of libtorch's device allocators share.

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <tuple>

#include "guard.h"
#include "segments.h"
#include "shim.h"

namespace {

// Runs `body` with the allocator and index of a device. Before its first allocation an allocator throws instead of
// returning zeros, so `body` is not called then.
template <class F>
int32_t with_initialized(toma_device device, toma_error* error, F body) noexcept {
  return toma::guarded(error, [&] {
    const auto existing = toma::existing(device);
    auto& allocator = *c10::getDeviceAllocator(existing.type());
    if (allocator.initialized()) {
      body(allocator, existing.index());
    }
  });
}

uint64_t natural(int64_t number) { return number < 0 ? 0 : static_cast<uint64_t>(number); }

toma_stats stats_of(c10::DeviceAllocator& allocator, c10::DeviceIndex index) {
  constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = allocator.getDeviceStats(index);
  const auto& allocated = stats.allocated_bytes[all];
  const auto& reserved = stats.reserved_bytes[all];
  return {
      natural(allocated.current), natural(reserved.current), natural(allocated.peak), natural(reserved.peak),
      natural(stats.allocation[all].allocated), natural(stats.num_alloc_retries), natural(stats.num_ooms),
  };
}

}  // namespace

// libtorch looks up kinds of devices in a table without a check. The guard and the allocator may be called only if the
// device exists, because a libtorch also has them for devices that the machine lacks.
c10::Device toma::existing(toma_device device) {
  if (device.type < 0 || device.type >= static_cast<int32_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES)) {
    throw NoDevice("no kind of device has the number " + std::to_string(device.type));
  }
  const auto type = static_cast<c10::DeviceType>(device.type);
  const int32_t count = c10::impl::hasDeviceGuardImpl(type) ? c10::impl::getDeviceGuardImpl(type)->deviceCount() : 0;
  if (device.index < 0 || device.index >= count) {
    throw NoDevice(
        "no device " + c10::DeviceTypeName(type, true) + ":" + std::to_string(device.index) + ": libtorch sees " +
        std::to_string(count) + " of this kind");
  }
  return {type, static_cast<c10::DeviceIndex>(device.index)};
}

int32_t toma_device_stats(toma_device device, toma_stats* out, toma_error* error) noexcept {
  *out = {};
  return with_initialized(device, error, [&](auto& allocator, auto index) { *out = stats_of(allocator, index); });
}

int32_t toma_device_memory(toma_device device, uint64_t* out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto existing = toma::existing(device);
    auto& allocator = *c10::getDeviceAllocator(existing.type());
    std::tie(out[0], out[1]) = allocator.getMemoryInfo(existing.index());
    if (existing.is_cuda()) {
      // The allocator knows no fraction before this. `getMemoryInfo` has already made the context.
      at::globalContext().lazyInitDevice(existing.type());
      const auto allowed = toma::allowed_by_fraction(allocator, existing.index(), out[1]);
      const auto reserved = stats_of(allocator, existing.index()).reserved_bytes;
      out[0] = std::min(out[0], allowed - std::min(allowed, reserved));
      out[1] = std::min(out[1], allowed);
    }
  });
}

int32_t toma_device_parts(
    toma_device device, toma_part* parts, size_t most, size_t* count, toma_error* error) noexcept {
  *count = 0;
  return with_initialized(device, error, [&](auto& allocator, auto index) {
    if (device.type == static_cast<int32_t>(c10::kCUDA)) {
      *count = toma::parts_of(allocator, index, parts, most);
    }
  });
}

// Releases memory of all devices of the kind at once, because the interface has no finer function.
int32_t toma_device_release(toma_device device, toma_error* error) noexcept {
  return with_initialized(device, error, [](auto& allocator, auto) { allocator.emptyCache(); });
}

int32_t toma_device_reset_peak(toma_device device, toma_error* error) noexcept {
  return with_initialized(device, error, [](auto& allocator, auto index) { allocator.resetPeakStats(index); });
}
