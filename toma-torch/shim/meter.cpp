// The bytes of a thread.

#include "meter.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <utility>

#include "guard.h"

namespace toma {
namespace {

// Of the calling thread.
std::shared_ptr<Counts> own_counts() {
  auto* own = of_thread<std::shared_ptr<Counts>>();
  if (own == nullptr) {
    return std::make_shared<Counts>();
  }
  if (*own == nullptr) {
    *own = std::make_shared<Counts>();
  }
  return *own;
}

// Where nothing counts nothing changes. Never destroyed: threads may look while the process ends.
Counts& counts_of_accelerators() noexcept {
  static auto* nothing = new Counts;
  const auto* found = counting();
  return found == nullptr ? *nothing : found->counts();
}

// Null where the thread ends.
Readings* readings(c10::Device device) noexcept {
  return device.is_cpu() ? of_thread<Readings>() : &counts_of_accelerators().readings;
}

}  // namespace

Level& level() noexcept {
  static thread_local Level level;
  return level;
}

Level& level(c10::Device device) noexcept { return device.is_cpu() ? level() : counts_of_accelerators().level; }

Counting::Counting() : own(own_counts()) {}

void Counting::change(int64_t bytes, c10::Device device) const noexcept {
  // What moves is the program's all the same.
  if (!device.is_cpu() && !moves_storages()) {
    own->level.change(bytes);
  }
}

const Counting* counting() noexcept {
  return dynamic_cast<const Counting*>(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE));
}

void Readings::open(const std::shared_ptr<Reading>& reading) {
  const std::lock_guard<std::mutex> held(lock);
  all.push_back(reading);
  is_empty = false;
}

void Readings::take(Level& level) noexcept {
  const auto now = level.now.load(std::memory_order_relaxed);
  const auto peak = level.peak.exchange(now, std::memory_order_relaxed);
  if (is_empty.load(std::memory_order_relaxed)) {
    return;
  }
  const std::lock_guard<std::mutex> held(lock);
  const auto is_over = [&](const std::weak_ptr<Reading>& open) {
    const auto reading = open.lock();
    if (reading != nullptr) {
      reading->peak = std::max(reading->peak, peak);
    }
    return reading == nullptr;
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_over), all.end());
  is_empty = all.empty();
}

Meter::Meter(c10::Device device) : device(device), reading(std::make_shared<Reading>()) {
  take(device);
  *reading = {now(), now()};
  if (auto* all = readings(device)) {
    all->open(reading);
  }
}

int64_t Meter::peak_since() {
  take(device);
  return std::exchange(reading->peak, now()) - reading->start;
}

void Meter::take(c10::Device device) noexcept {
  if (auto* all = readings(device)) {
    all->take(level(device));
  }
}

}  // namespace toma
