// Bytes that a thread has allocated and their peak, to measure stages of a program.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace toma {

// Raises the peak to `now`, if that is more.
template <class T>
void raise(std::atomic<T>& peak, T now) noexcept {
  auto most = peak.load(std::memory_order_relaxed);
  while (most < now && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

// Counter of a thread. Blocks that another thread frees stay in it, so only differences are meaningful.
struct Level {
  // Unique in the process, so that a level at a reused address is told apart.
  const uint64_t number = numbered();
  std::atomic<int64_t> now{0};
  // Peak since it was last taken.
  std::atomic<int64_t> peak{0};

  void change(int64_t bytes) noexcept {
    raise(peak, now.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  }

 private:
  static uint64_t numbered() noexcept {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
};

// Level of this thread in the counting allocator.
Level& level() noexcept;

struct Reading {
  const int64_t start;
  std::atomic<int64_t> peak;
};

// Readings that receive the peaks of one level.
class Readings {
 public:
  void open(const std::shared_ptr<Reading>& reading);
  void take(Level& level) noexcept;

 private:
  std::mutex lock;
  std::vector<std::weak_ptr<Reading>> all;
  // A level without open readings takes no lock.
  std::atomic<bool> is_empty{true};
};

// Counters of one GPU: allocations of a thread and of its backwards, which run on threads of the device.
struct Counts {
  Level level;
  Readings readings;
};

// Observer in the profiler's slot of a thread and of its backwards. Counts for the thread that made it.
class Counting {
 public:
  using All = std::array<Counts, 64>;

  void change(int64_t bytes, c10::Device device) const noexcept;
  // Null for a device that is no GPU.
  Counts* at(c10::Device device) const noexcept;
  std::shared_ptr<Counts> of(c10::Device device) const noexcept;

 protected:
  Counting();
  ~Counting() = default;

 private:
  const std::shared_ptr<All> own;
};

// Null if nothing counts.
const Counting* counting() noexcept;

// Peak of the allocations of a region's threads on a device, relative to the begin of the region. When one meter takes
// the peak of a level, all other meters of that level receive it.
class Meter {
 public:
  explicit Meter(c10::Device device);
  int64_t start() const { return reading->start; }
  int64_t peak() const { return reading->peak; }
  int64_t now() const noexcept { return (counts == nullptr ? level() : counts->level).now; }
  // Peak since the last call, relative to the start.
  int64_t peak_since() const;
  // Passes the peak since the last call on to all meters of the level.
  void take() const noexcept;
  // True if this meter counts the allocations of the current thread; they may be counted elsewhere or not at all.
  bool counts_here() const noexcept;

  // Passes the peak of this thread's CPU allocations on to all meters that count them.
  static void take_of_cpu() noexcept;

 private:
  c10::Device device;
  // Null for the CPU, which counts the calling thread. If nothing counts, the counters do not change.
  std::shared_ptr<Counts> counts;
  // On the CPU, the level of the thread that made the meter.
  uint64_t of_level = level().number;
  std::shared_ptr<Reading> reading;
};

}  // namespace toma
