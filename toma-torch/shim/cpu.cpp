// A CPU allocator that counts exactly, and refuses what exceeds a budget with libtorch's own typed
// error.
//
// Each block begins with a header that holds its size, because a deleter gets nothing but the
// pointer. The header is as large as libtorch's alignment, so the data stay aligned. The context of
// a DataPtr is the data pointer itself and the deleter is the raw one: oneDNN asserts both.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <limits>
#include <mutex>

#include "guard.h"
#include "shim.h"

namespace {

using Count = std::atomic<uint64_t>;

Count allocated{0};
Count peak{0};
Count allocations{0};
Count ooms{0};
Count budget{std::numeric_limits<uint64_t>::max()};

// Of a thread, so that tests that run side by side do not meet each other's failures.
thread_local int64_t fail_after = -1;
thread_local int32_t exempt = 0;

constexpr size_t header = c10::gAlignment;
static_assert(header >= sizeof(uint64_t));

uint64_t& size_of(void* data) {
  return *reinterpret_cast<uint64_t*>(static_cast<char*>(data) - header);
}

// Without a backtrace: it costs milliseconds to print, and the message says it all.
[[noreturn]] void out_of_memory(size_t bytes, const std::string& why) {
  ooms.fetch_add(1, std::memory_order_relaxed);
  c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
  throw c10::OutOfMemoryError("CPU out of memory: tried to allocate " + std::to_string(bytes) + " bytes, " + why, nullptr);
}

void raise_peak(uint64_t now) {
  auto before = peak.load(std::memory_order_relaxed);
  while (before < now && !peak.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
  }
}

// Counts the bytes, unless the budget forbids it; in one step, so that two threads cannot both be
// refused where one fits.
bool take(uint64_t bytes, uint64_t limit, uint64_t* before) {
  *before = allocated.load(std::memory_order_relaxed);
  do {
    if (*before > limit || limit - *before < bytes) {
      return false;
    }
  } while (!allocated.compare_exchange_weak(*before, *before + bytes, std::memory_order_relaxed));
  return true;
}

void refuse_injected(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (exempt == 0 && fail_after >= 0 && fail_after-- == 0) {
    out_of_memory(bytes, "a failure was injected");
  }
}

// Numbers that are a mistake, not a size, get libtorch's own answer.
void refuse_mistake(size_t bytes) {
  constexpr size_t largest = std::numeric_limits<ptrdiff_t>::max() - header;
  if (bytes > largest) {
    c10::free_cpu(c10::alloc_cpu(bytes));
    out_of_memory(bytes, "there are no more addresses");
  }
}

// Of bytes that are counted already, and are not any more when there is no block for them.
void* block(size_t bytes) {
  try {
    return static_cast<char*>(c10::alloc_cpu(bytes + header)) + header;
  } catch (const c10::Error&) {
    allocated.fetch_sub(bytes, std::memory_order_relaxed);
    out_of_memory(bytes, "the system has no more");
  } catch (...) {
    allocated.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
}

void release(void* data) {
  if (data == nullptr) {
    return;
  }
  c10::profiledCPUMemoryReporter().Delete(data);
  allocated.fetch_sub(size_of(data), std::memory_order_relaxed);
  c10::free_cpu(static_cast<char*>(data) - header);
}

struct CountingAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
    }
    refuse_injected(bytes);
    refuse_mistake(bytes);
    const auto limit = exempt > 0 ? std::numeric_limits<uint64_t>::max() : budget.load(std::memory_order_relaxed);
    uint64_t before = 0;
    if (!take(bytes, limit, &before)) {
      out_of_memory(bytes, std::to_string(before) + " of " + std::to_string(limit) + " are allocated");
    }
    void* data = block(bytes);
    if (exempt == 0) {
      raise_peak(before + bytes);
    }
    size_of(data) = bytes;
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

toma::Exempt::Exempt() noexcept { ++exempt; }
toma::Exempt::~Exempt() { --exempt; }

// Never taken back: blocks of ours may live until the process ends, and some users of the raw
// interface free them through whatever allocator is set then.
void toma_cpu_install() noexcept {
  static CountingAllocator allocator;
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(&allocator, std::numeric_limits<uint8_t>::max()); });
}

void toma_cpu_stats_get(toma_cpu_stats* out) noexcept {
  *out = {allocated.load(), peak.load(), allocations.load(), ooms.load(), budget.load()};
}

void toma_cpu_reset_peak() noexcept { peak.store(allocated.load()); }

void toma_cpu_set_budget(uint64_t bytes) noexcept { budget.store(bytes); }

int64_t toma_cpu_fail_after(int64_t skip) noexcept {
  const auto left = fail_after;
  fail_after = skip;
  return left;
}
