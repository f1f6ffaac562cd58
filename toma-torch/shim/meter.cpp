// The bytes of a thread.

#include "meter.h"

#include <utility>
#include <vector>

#include "guard.h"

namespace toma {
namespace {

// Null where the thread ends.
template <class T>
std::vector<std::weak_ptr<T>>* open() {
  return of_thread<std::vector<std::weak_ptr<T>>>();
}

}  // namespace

Level& level() noexcept {
  static thread_local Level level;
  return level;
}

Meter::Meter() : reading(std::make_shared<Reading>()) {
  take();
  *reading = {level().now, level().now};
  if (auto* meters = open<Reading>()) {
    meters->push_back(reading);
  }
}

int64_t Meter::peak_since() {
  take();
  return std::exchange(reading->peak, level().now) - reading->start;
}

void Meter::take() noexcept {
  auto& level = toma::level();
  const auto peak = std::exchange(level.peak, level.now);
  auto* meters = open<Reading>();
  if (meters == nullptr) {
    return;
  }
  const auto is_over = [&](const std::weak_ptr<Reading>& meter) {
    const auto reading = meter.lock();
    if (reading != nullptr) {
      reading->peak = std::max(reading->peak, peak);
    }
    return reading == nullptr;
  };
  meters->erase(std::remove_if(meters->begin(), meters->end(), is_over), meters->end());
}

}  // namespace toma
