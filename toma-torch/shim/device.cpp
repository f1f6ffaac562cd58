// Memory of devices, through the interface all of libtorch's device allocators share.

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <tuple>

#include "guard.h"
#include "shim.h"

namespace {

// Runs `body` with the allocator and index of a device. Before its first allocation an allocator has
// counted nothing and holds nothing, and refuses to say so.
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

// libtorch looks kinds up in a table without asking whether they are in it. Neither the guard nor the
// allocator may be asked before it is known that there is a device: both exist in a libtorch that was
// built for devices this machine does not have.
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
    std::tie(out[0], out[1]) = c10::getDeviceAllocator(existing.type())->getMemoryInfo(existing.index());
  });
}

// Of all devices of the kind at once: the interface knows no finer release.
int32_t toma_device_release(toma_device device, toma_error* error) noexcept {
  return with_initialized(device, error, [](auto& allocator, auto) { allocator.emptyCache(); });
}

int32_t toma_device_reset_peak(toma_device device, toma_error* error) noexcept {
  return with_initialized(device, error, [](auto& allocator, auto index) { allocator.resetPeakStats(index); });
}
