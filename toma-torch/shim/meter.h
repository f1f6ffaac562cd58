// How many bytes a thread has allocated, and the most of them, for what measures stages of it.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace toma {

// A block that another thread frees stays in it, so only differences tell.
struct Level {
  std::atomic<int64_t> now{0};
  // Since it was last taken.
  std::atomic<int64_t> peak{0};

  void change(int64_t bytes) noexcept {
    const auto changed = now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    auto most = peak.load(std::memory_order_relaxed);
    while (most < changed && !peak.compare_exchange_weak(most, changed, std::memory_order_relaxed)) {
    }
  }
};

// Of this thread, in the counting allocator.
Level& level() noexcept;
// Of the CPU that of this thread. Of accelerators what a thread and its backwards have allocated, which run on threads of
// their devices: there it is that of the thread that has begun the backward.
Level& level(c10::Device device) noexcept;

struct Reading {
  int64_t start, peak;
};

// Readings that one level tells its peaks.
class Readings {
 public:
  void open(const std::shared_ptr<Reading>& reading);
  void take(Level& level) noexcept;

 private:
  std::mutex lock;
  std::vector<std::weak_ptr<Reading>> all;
  // What no reading is open for takes no lock.
  std::atomic<bool> is_empty{true};
};

// Of accelerators.
struct Counts {
  Level level;
  Readings readings;
};

// What is in the place of libtorch's profiler on a thread, and on those of its backwards. Counts for the thread that makes
// it.
class Counting {
 public:
  void change(int64_t bytes, c10::Device device) const noexcept;
  Counts& counts() const { return *own; }

 protected:
  Counting();
  ~Counting() = default;

 private:
  const std::shared_ptr<Counts> own;
};

// Null where nothing counts.
const Counting* counting() noexcept;

// The most that the threads of one region have allocated beyond what they had when it began. Readings of one meter
// tell all others of the level.
class Meter {
 public:
  explicit Meter(c10::Device device);
  int64_t start() const { return reading->start; }
  int64_t peak() const { return reading->peak; }
  int64_t now() const noexcept { return level(device).now; }
  // Beyond the start, since this was last asked.
  int64_t peak_since();

  // Lets all meters of this thread know the peak since the last call.
  static void take(c10::Device device) noexcept;

 private:
  c10::Device device;
  std::shared_ptr<Reading> reading;
};

}  // namespace toma
