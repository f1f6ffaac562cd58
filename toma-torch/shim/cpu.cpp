// A CPU allocator that counts exactly, and refuses allocations beyond a budget with libtorch's own typed error.
//
// It can be installed at any time. Raw blocks are freed through the allocator that is set at that moment, so this one
// receives blocks from before its installation, and a caller that kept the previous allocator frees blocks of this one.
// Both are sound because the memory is never ours: a block comes from the previous allocator and returns through its
// deleter, unchanged. Our data are in a separate table of live blocks. A pointer that is not in the table is not
// counted.
//
// The context of a DataPtr is the data pointer itself and the deleter is the raw one: oneDNN asserts both.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <utility>

#include "blocks.h"
#include "guard.h"
#include "meter.h"
#include "shim.h"

namespace {

using Count = std::atomic<uint64_t>;

constexpr auto unlimited = std::numeric_limits<uint64_t>::max();

Count allocated{0};
Count peak{0};
Count ooms{0};
Count budget{unlimited};

// Watcher of all blocks, which lives forever; null for none.
std::atomic<const toma_watcher*> watching{nullptr};

// Never destroyed, and neither is the allocator: threads may allocate and free while the process ends.
toma::Blocks* living = nullptr;

// The previous allocator, and its deleter.
c10::Allocator* previous = nullptr;
c10::DeleterFnPtr previous_deleter = nullptr;

// Per thread, so that tests that run in parallel do not receive each other's failures.
thread_local int64_t fail_after = -1;
thread_local int32_t exempt = 0;

// Number of the CPU for a watcher.
constexpr uint32_t cpu = 0;

// Has no backtrace, which would take milliseconds to print and add nothing to the message.
[[noreturn]] void out_of_memory(size_t bytes, const std::string& why) {
  ooms.fetch_add(1, std::memory_order_relaxed);
  if (const auto* watcher = toma::watcher(); watcher != nullptr && exempt == 0) {
    watcher->refused(cpu, bytes);
  }
  throw c10::OutOfMemoryError("CPU out of memory: tried to allocate " + std::to_string(bytes) + " bytes, " + why, nullptr);
}

// Also reports to libtorch's profiler, for failures that no other allocator has reported.
[[noreturn]] void refuse(size_t bytes, const std::string& why) {
  c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
  out_of_memory(bytes, why);
}

// Counts the bytes, unless the budget forbids it and nothing can be evicted. This is one atomic step, so that two
// threads cannot both be refused if one of them fits. Returns the bytes allocated before.
uint64_t take(uint64_t bytes) {
  auto before = allocated.load(std::memory_order_relaxed);
  while (true) {
    const auto limit = budget.load(std::memory_order_relaxed);
    if (before <= limit && limit - before >= bytes) {
      if (allocated.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed)) {
        return before;
      }
    } else if (toma::is_relieved(c10::kCPU, bytes > limit ? bytes : before + bytes - limit)) {
      before = allocated.load(std::memory_order_relaxed);
    } else if (const auto now = allocated.load(std::memory_order_relaxed); now < before) {
      // Another thread has freed bytes meanwhile.
      before = now;
    } else {
      refuse(bytes, std::to_string(before) + " of " + std::to_string(limit) + " are allocated");
    }
  }
}

// Changes the thread's level, except while the thread moves a storage, whose bytes stay the program's.
void change_level(int64_t bytes) {
  if (!toma::moves_storages()) {
    toma::level().change(bytes);
  }
}

uint64_t counted(toma::Block block) { return block.is_exempt || block.is_aside ? 0 : block.bytes; }

// Asks the watcher for the owner of a block.
uint64_t owner_of(const void* data, toma::Block block) {
  const auto* watcher = toma::watcher();
  return watcher == nullptr || block.is_exempt ? 0 : watcher->allocated(cpu, reinterpret_cast<uintptr_t>(data), block.bytes);
}

void uncount(const void* data, toma::Block block) {
  if (block.bytes > 0 && !block.is_aside) {
    allocated.fetch_sub(counted(block), std::memory_order_relaxed);
    change_level(-static_cast<int64_t>(counted(block)));
    if (const auto* watcher = toma::watcher(); watcher != nullptr && !block.is_exempt) {
      watcher->freed(cpu, reinterpret_cast<uintptr_t>(data), block.bytes, block.owner);
    }
  }
}

void release(void* data) {
  // Done before the block is freed, because its address may then be reused by another thread.
  const auto block = living->remove(data);
  uncount(data, block);
  if (!block.is_aside) {
    toma::report_cpu_block(data, -static_cast<int64_t>(block.bytes));
  }
  previous_deleter(data);
}

// Allocates a block whose bytes are counted already, unless it is exempt. If this fails, they are not counted any more.
c10::DataPtr made(toma::Block block) {
  c10::DataPtr data;
  try {
    data = previous->allocate(block.bytes);
  } catch (const c10::Error&) {
    allocated.fetch_sub(counted(block), std::memory_order_relaxed);
    out_of_memory(block.bytes, "the system has no more");
  }
  block.owner = owner_of(data.get(), block);
  try {
    // A block that was freed past us stays in the table until its address is reused.
    uncount(data.get(), living->insert(data.get(), block));
  } catch (const std::bad_alloc&) {
    uncount(data.get(), block);
    out_of_memory(block.bytes, "the system has no more for the table of blocks");
  }
  TORCH_INTERNAL_ASSERT(data.compare_exchange_deleter(previous_deleter, &release));
  toma::report_cpu_block(data.get(), static_cast<int64_t>(block.bytes));
  return data;
}

// Counts an allocation and runs `allocate`, which receives true if the thread is exempt; exempt bytes are not counted.
template <class F>
void counted_as_allocated(size_t bytes, const F& allocate) {
  const auto is_exempt = exempt > 0;
  if (!is_exempt && fail_after >= 0 && fail_after-- == 0) {
    refuse(bytes, "a failure was injected");
  }
  const auto before = is_exempt ? 0 : take(bytes);
  allocate(is_exempt);
  if (!is_exempt) {
    toma::raise(peak, before + bytes);
    change_level(static_cast<int64_t>(bytes));
  }
}

struct CountingAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
    }
    if (bytes > toma::most_bytes) {
      // A size of this kind is a mistake in the caller, so the previous allocator answers as it did before.
      return previous->allocate(bytes);
    }
    at::DataPtr data;
    counted_as_allocated(bytes, [&](bool is_exempt) { data = made({bytes, is_exempt, 0, 0}); });
    return data;
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

void install() {
  previous = c10::GetCPUAllocator();
  if (previous->raw_deleter() == nullptr) {
    // Such an allocator makes no raw blocks: libtorch asserts a deleter for those.
    previous = c10::GetDefaultCPUAllocator();
  }
  previous_deleter = previous->raw_deleter();
  living = new toma::Blocks;
  living->survive_forks();
  auto* allocator = new CountingAllocator;
  // libtorch stores the pointer without a lock. Threads that read it must see the finished allocator.
  std::atomic_thread_fence(std::memory_order_release);
  c10::SetCPUAllocator(allocator, std::numeric_limits<uint8_t>::max());
}

}  // namespace

void toma::uncount_in_place(void* data) noexcept {
  auto block = living->at(data);
  uncount(data, block);
  report_cpu_block(data, -static_cast<int64_t>(block.bytes));
  block.is_aside = 1;
  block.owner = 0;
  living->insert(data, block);
}

void toma::count_again(void* data) {
  auto block = living->at(data);
  counted_as_allocated(block.bytes, [&](bool is_exempt) {
    block.is_aside = 0;
    block.is_exempt = is_exempt ? 1 : 0;
    block.owner = owner_of(data, block);
    living->insert(data, block);
    report_cpu_block(data, static_cast<int64_t>(block.bytes));
  });
}

toma::Exempt::Exempt() noexcept { ++exempt; }
toma::Exempt::~Exempt() { --exempt; }

// The allocator is never removed, because blocks of ours may live until the process ends.
void toma_cpu_install() noexcept {
  static std::once_flag once;
  std::call_once(once, install);
}

toma_stats toma_cpu_stats() noexcept {
  const auto bytes = allocated.load();
  const auto most = peak.load();
  return {bytes, bytes, most, most, living == nullptr ? 0 : living->inserted(), 0, ooms.load()};
}

uint64_t toma_cpu_allocated_bytes() noexcept { return allocated.load(std::memory_order_relaxed); }

void toma_cpu_reset_peak() noexcept { peak.store(allocated.load()); }

uint64_t toma_cpu_budget() noexcept { return budget.load(std::memory_order_relaxed); }

void toma_cpu_set_budget(uint64_t bytes) noexcept { budget.store(bytes); }

const toma_watcher* toma::watcher() noexcept { return watching.load(std::memory_order_acquire); }

void toma_cpu_watch(const toma_watcher* watcher) noexcept { watching.store(watcher, std::memory_order_release); }

uint64_t toma_cpu_owner(uint64_t address) noexcept {
  return living == nullptr ? 0 : living->at(reinterpret_cast<void*>(address)).owner;
}

void toma_cpu_each_block(toma_each_block body, void* context) noexcept {
  if (living != nullptr) {
    living->each([&](const void* data, const toma::Block& block) {
      if (!block.is_exempt && !block.is_aside) {
        body(context, reinterpret_cast<uintptr_t>(data), block.bytes, block.owner);
      }
    });
  }
}

int64_t toma_cpu_fail_after(int64_t skip) noexcept {
  return std::exchange(fail_after, skip);
}
