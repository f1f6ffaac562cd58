// The bytes of a thread.

#include "meter.h"

#include <utility>
#include <vector>

namespace toma {
namespace {

template <class T>
std::vector<std::weak_ptr<T>>& open() {
  static thread_local std::vector<std::weak_ptr<T>> open;
  return open;
}

}  // namespace

Level& level() noexcept {
  static thread_local Level level;
  return level;
}

Meter::Meter() : reading(std::make_shared<Reading>()) {
  take();
  *reading = {level().now, level().now};
  open<Reading>().push_back(reading);
}

int64_t Meter::peak_since() {
  take();
  return std::exchange(reading->peak, level().now) - reading->start;
}

void Meter::take() noexcept {
  auto& level = toma::level();
  const auto peak = std::exchange(level.peak, level.now);
  auto& meters = open<Reading>();
  const auto is_over = [&](const std::weak_ptr<Reading>& meter) {
    const auto reading = meter.lock();
    if (reading != nullptr) {
      reading->peak = std::max(reading->peak, peak);
    }
    return reading == nullptr;
  };
  meters.erase(std::remove_if(meters.begin(), meters.end(), is_over), meters.end());
}

}  // namespace toma
