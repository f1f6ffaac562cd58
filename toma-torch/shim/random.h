// The state of a generator of random numbers, without a tensor.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace toma {

struct Operator;

class Random {
 public:
  // That of now, of the process's generator for a device.
  explicit Random(c10::Device device);
  explicit Random(at::Generator generator);
  // States of the CPU and of each CUDA device: a seed is all of theirs.
  static std::vector<Random> of_all();
  // Makes it that of now.
  void set() const;
  // Makes it that of now where somebody has seeded the generator since. Numbers that other threads drew stay drawn.
  void undo_seed() const;
  const at::Generator& generator() const { return of; }
  bool operator==(const Random& other) const;
  // Held while an operator of a region draws, so that no other region's does meanwhile.
  static std::mutex& lock();

 private:
  void put() const;
  bool is_seeded_since() const;

  // Of its lock; what it says is not ours.
  mutable at::Generator of;
  // The seed and the offset of an accelerator's, the engine and what it has left over of the CPU's.
  uint64_t seed = 0, offset = 0;
  std::optional<at::mt19937> engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};

// Beside the program's: what draws from it takes no numbers from other threads. Starts in the state of now.
at::Generator own_generator();

// While one of these lives, operators of this thread draw from a generator of ours, also those that others call.
class Drawing {
 public:
  // Nothing changes for one of the process's.
  explicit Drawing(const at::Generator& generator);
  ~Drawing();
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

  // Null while none lives.
  static const at::Generator*& current() noexcept;

 private:
  const at::Generator* outer;
  const bool included, excluded;
};

// Puts a generator into the arguments of an operator, which end the stack. Raises where a kernel of the CPU would draw
// from the process's all the same.
void give_generator(const c10::OperatorHandle& op, const Operator& operation, torch::jit::Stack& stack, const at::Generator& generator);

}  // namespace toma
