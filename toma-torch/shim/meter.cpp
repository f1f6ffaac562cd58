// Counted bytes of a thread.

#include "meter.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <utility>

#include "guard.h"

namespace toma {
namespace {

// Counters of the calling thread.
std::shared_ptr<Counting::All> own_counts() {
  auto* own = of_thread<std::shared_ptr<Counting::All>>();
  if (own != nullptr && *own != nullptr) {
    return *own;
  }
  auto made = std::make_shared<Counting::All>();
  if (own != nullptr) {
    *own = made;
  }
  return made;
}

std::shared_ptr<Counts> counts_of(c10::Device device) {
  if (device.is_cpu()) {
    return nullptr;
  }
  const auto* found = counting();
  auto counts = found == nullptr ? nullptr : found->of(device);
  return counts == nullptr ? std::make_shared<Counts>() : counts;
}

}  // namespace

Level& level() noexcept {
  static thread_local Level level;
  return level;
}

Counting::Counting() : own(own_counts()) {}

void Counting::change(int64_t bytes, c10::Device device) const noexcept {
  // A storage that moves stays the program's.
  auto* counts = moves_storages() ? nullptr : at(device);
  if (counts != nullptr) {
    counts->level.change(bytes);
  }
}

Counts* Counting::at(c10::Device device) const noexcept {
  const auto index = static_cast<size_t>(device.index());
  return device.is_cuda() && index < own->size() ? &(*own)[index] : nullptr;
}

std::shared_ptr<Counts> Counting::of(c10::Device device) const noexcept { return {own, at(device)}; }

const Counting* counting() noexcept {
  return dynamic_cast<const Counting*>(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE));
}

void Readings::open(const std::shared_ptr<Reading>& reading) {
  const std::lock_guard<std::mutex> held(lock);
  all.push_back(reading);
  is_empty = false;
}

void Readings::take(Level& level) noexcept {
  const auto peak = level.peak.exchange(level.now, std::memory_order_relaxed);
  if (is_empty.load(std::memory_order_relaxed)) {
    return;
  }
  const std::lock_guard<std::mutex> held(lock);
  const auto is_over = [&](const std::weak_ptr<Reading>& open) {
    const auto reading = open.lock();
    if (reading != nullptr) {
      raise(reading->peak, peak);
    }
    return reading == nullptr;
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_over), all.end());
  is_empty = all.empty();
}

Meter::Meter(c10::Device device) : device(device), counts(counts_of(device)) {
  take();
  reading.reset(new Reading{now(), {now()}});
  // Null while the thread ends.
  if (auto* all = counts == nullptr ? of_thread<Readings>() : &counts->readings) {
    all->open(reading);
  }
}

int64_t Meter::peak_since() const {
  take();
  return reading->peak.exchange(now()) - reading->start;
}

void Meter::take() const noexcept {
  if (counts == nullptr) {
    return take_of_cpu();
  }
  counts->readings.take(counts->level);
}

bool Meter::counts_here() const noexcept {
  if (counts == nullptr) {
    return level().number == of_level;
  }
  const auto* found = counting();
  return found != nullptr && found->at(device) == counts.get();
}

void Meter::take_of_cpu() noexcept {
  if (auto* all = of_thread<Readings>()) {
    all->take(level());
  }
}

}  // namespace toma
