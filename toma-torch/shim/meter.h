// How many bytes a thread has allocated, and the most of them, for what measures stages of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

namespace toma {

// Of the counting allocator. A block that another thread frees stays in it, so only differences tell.
struct Level {
  int64_t now = 0;
  // Since it was last taken.
  int64_t peak = 0;

  void change(int64_t bytes) noexcept {
    now += bytes;
    peak = std::max(peak, now);
  }
};

Level& level() noexcept;

// The most that the threads of one region have allocated beyond what they had when it began. Readings of one meter
// tell all others of the thread.
class Meter {
 public:
  Meter();
  int64_t start() const { return reading->start; }
  int64_t peak() const { return reading->peak; }
  // Beyond the start, since this was last asked.
  int64_t peak_since();

  // Lets all meters of this thread know the peak since the last call.
  static void take() noexcept;

 private:
  struct Reading {
    int64_t start, peak;
  };
  std::shared_ptr<Reading> reading;
};

}  // namespace toma
