// Blocks of GPUs, as libtorch reports them on threads that called `toma_gpu_observe` and on those of their backwards.

#include <torch/csrc/profiler/orchestration/observer.h>

#include "blocks.h"
#include "meter.h"
#include "observe.h"
#include "shim.h"

namespace toma {
namespace {

using namespace torch::profiler::impl;

constexpr auto slot = c10::DebugInfoKind::PROFILER_STATE;
constexpr size_t most_devices = 64;

// Never destroyed: threads may free while the process ends.
std::array<Blocks, most_devices>& tables() {
  static auto* tables = new std::array<Blocks, most_devices>;
  return *tables;
}

bool is_known(c10::Device device) {
  return device.type() == c10::kCUDA && device.index() >= 0 && static_cast<size_t>(device.index()) < most_devices;
}

// Number of a GPU for the watcher; the CPU is 0.
uint32_t number_of(c10::Device device) { return static_cast<uint32_t>(device.index()) + 1; }

Blocks& table_of(c10::Device device) { return tables()[static_cast<size_t>(device.index())]; }

// libtorch's profiler assumes that the object in its slot is its own, so this is a profiler state, and disabled.
struct Reports final : ProfilerStateBase, Counting {
  Reports() : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled)) {}

  void reportMemoryUsage(void* data, int64_t bytes, size_t, size_t reserved, c10::Device device) override {
    change(bytes, device);
    report_gpu_block(data, bytes, reserved, device);
  }

  void reportOutOfMemory(int64_t bytes, size_t, size_t, c10::Device device) override { report_refused(bytes, device); }

  ActiveProfilerType profilerType() override { return ActiveProfilerType::NONE; }
};

void report_freed(const toma_watcher& watcher, c10::Device device, void* data, Block block) noexcept {
  if (block.bytes > 0) {
    watcher.freed(number_of(device), reinterpret_cast<uintptr_t>(data), block.bytes, block.owner);
  }
}

}  // namespace

void report_gpu_block(void* data, int64_t bytes, size_t reserved, c10::Device device) noexcept {
  const auto* watcher = toma::watcher();
  if (watcher == nullptr || Unobserved::of_thread != nullptr || !is_known(device) || bytes == 0) {
    return;
  }
  auto before = table_of(device).remove(data);
  if (bytes < 0 && before.bytes == 0) {
    before.bytes = static_cast<uint64_t>(-bytes);
  }
  // If a block is allocated, a previous one at its address was freed by a thread that reports nothing.
  report_freed(*watcher, device, data, before);
  if (bytes > 0) {
    const auto size = static_cast<uint64_t>(bytes);
    const auto owner = watcher->allocated(number_of(device), reinterpret_cast<uintptr_t>(data), size);
    try {
      table_of(device).insert(data, {size, 0, 0, owner});
    } catch (const std::bad_alloc&) {
      // The block then counts as one from before.
    }
  }
  watcher->reserved(number_of(device), reserved);
}

void report_refused(int64_t bytes, c10::Device device) noexcept {
  if (const auto* watcher = toma::watcher(); watcher != nullptr && Unobserved::of_thread == nullptr && is_known(device)) {
    watcher->refused(number_of(device), static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
  }
}

bool is_of_profile(const c10::DebugInfoBase* info) noexcept { return dynamic_cast<const Reports*>(info) != nullptr; }

}  // namespace toma

void toma_gpu_observe() noexcept {
  // The slot is taken. A recorder of ours reports blocks itself; libtorch's profiler would remove ours instead of
  // itself when it ends.
  if (c10::ThreadLocalDebugInfo::get(toma::slot) != nullptr) {
    return;
  }
  try {
    c10::ThreadLocalDebugInfo::_push(toma::slot, std::make_shared<toma::Reports>());
    toma::forget_with_thread();
  } catch (const std::exception&) {
    // Nothing is reported if memory for it runs out.
  }
}

uint64_t toma_gpu_owner(uint64_t address) noexcept {
  for (auto& table : toma::tables()) {
    if (const auto block = table.at(reinterpret_cast<void*>(address)); block.bytes > 0) {
      return block.owner;
    }
  }
  return 0;
}

void toma_gpu_each_block(uint32_t device, toma_each_block body, void* context) noexcept {
  toma::tables()[device - 1].each([&](const void* data, const toma::Block& block) {
    body(context, reinterpret_cast<uintptr_t>(data), block.bytes, block.owner);
  });
}
