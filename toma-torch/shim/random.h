// The state of the random numbers of a device, without a tensor.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/Device.h>

#include <memory>
#include <mutex>
#include <optional>

namespace toma {

class Random {
 public:
  // That of now.
  explicit Random(c10::Device device);
  // Makes it that of now.
  void set() const;
  c10::Device device() const { return on; }
  bool operator==(const Random& other) const;
  // Held while an operator of a region draws, so that no other region's does meanwhile.
  static std::mutex& lock();

 private:
  c10::Device on;
  // The seed and the offset of an accelerator's, the engine and what it has left over of the CPU's.
  uint64_t seed = 0, offset = 0;
  std::optional<at::mt19937> engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};

}  // namespace toma
