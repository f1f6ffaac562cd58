// How many bytes a thread has allocated, and the most of them, for what measures stages of it.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace toma {

// Where it is more than the most so far.
template <class T>
void raise(std::atomic<T>& peak, T now) noexcept {
  auto most = peak.load(std::memory_order_relaxed);
  while (most < now && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

// A block that another thread frees stays in it, so only differences tell.
struct Level {
  std::atomic<int64_t> now{0};
  // Since it was last taken.
  std::atomic<int64_t> peak{0};

  void change(int64_t bytes) noexcept {
    raise(peak, now.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  }
};

// Of this thread, in the counting allocator.
Level& level() noexcept;

struct Reading {
  const int64_t start;
  std::atomic<int64_t> peak;
};

// Readings that one level tells its peaks.
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

// Of one GPU: what a thread has allocated there, and its backwards, which run on threads of the device.
struct Counts {
  Level level;
  Readings readings;
};

// Stands where libtorch's profiler would on a thread, and on those of its backwards. Counts for the thread that made it.
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

// Null where nothing counts.
const Counting* counting() noexcept;

// The most that the threads of one region have allocated on a device beyond what they had when it began. Readings of one
// meter tell all others of the level.
class Meter {
 public:
  explicit Meter(c10::Device device);
  int64_t start() const { return reading->start; }
  int64_t peak() const { return reading->peak; }
  int64_t now() const noexcept { return (counts == nullptr ? level() : counts->level).now; }
  // Beyond the start, since this was last asked.
  int64_t peak_since() const;
  // Lets all meters of the level know the peak since the last call.
  void take() const noexcept;
  // It counts what this thread allocates on the GPU, which may be counted elsewhere or not at all.
  bool counts_here() const noexcept;

  // Lets all meters of this thread that count the CPU's know it.
  static void take_of_cpu() noexcept;

 private:
  c10::Device device;
  // Null for the CPU: of whatever thread asks. Where nothing counts, they stay as they are.
  std::shared_ptr<Counts> counts;
  std::shared_ptr<Reading> reading;
};

}  // namespace toma
