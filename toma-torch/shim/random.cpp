// The state of the random numbers of a device.

#include "random.h"

#include <ATen/Context.h>

#include <mutex>

namespace toma {
namespace {

template <class F>
void with_generator(c10::Device device, const F& body) {
  auto* generator = at::globalContext().defaultGenerator(device).unsafeGetGeneratorImpl();
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  body(*generator);
}

at::CPUGeneratorImpl& of_cpu(c10::GeneratorImpl& generator) { return static_cast<at::CPUGeneratorImpl&>(generator); }

}  // namespace

Random::Random(c10::Device device) : on(device.is_cpu() ? c10::Device(c10::kCPU) : device) {
  with_generator(on, [&](c10::GeneratorImpl& generator) {
    if (on.is_cpu()) {
      engine = of_cpu(generator).engine();
      next_float = of_cpu(generator).next_float_normal_sample();
      next_double = of_cpu(generator).next_double_normal_sample();
    } else {
      seed = generator.current_seed();
      offset = generator.get_offset();
    }
  });
}

void Random::set() const {
  with_generator(on, [&](c10::GeneratorImpl& generator) {
    if (on.is_cpu()) {
      of_cpu(generator).set_engine(*engine);
      of_cpu(generator).set_next_float_normal_sample(next_float);
      of_cpu(generator).set_next_double_normal_sample(next_double);
    } else {
      generator.set_current_seed(seed);
      generator.set_offset(offset);
    }
  });
}

bool Random::operator==(const Random& other) const {
  if (seed != other.seed || offset != other.offset || next_float != other.next_float || next_double != other.next_double) {
    return false;
  }
  if (!engine) {
    return true;
  }
  const auto ours = engine->data(), theirs = other.engine->data();
  return ours.left_ == theirs.left_ && ours.next_ == theirs.next_ && ours.state_ == theirs.state_;
}

std::mutex& Random::lock() {
  static std::mutex lock;
  return lock;
}

}  // namespace toma
