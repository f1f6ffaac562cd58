// State of a random number generator, without a tensor.
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
  // Reads the current state of the process's generator for a device.
  explicit Random(c10::Device device);
  explicit Random(at::Generator generator);
  // Reads the states of the CPU and of each CUDA device, because a seed sets all of them.
  static std::vector<Random> of_all();
  // Makes this the current state of the generator.
  void set() const;
  // Does this only if the generator was seeded since and nothing was drawn from the seed. Numbers that other threads
  // drew stay drawn, and so do the seeds from which they drew.
  void undo_seed() const;
  bool was_seeded() const;
  const at::Generator& generator() const { return of; }
  bool operator==(const Random& other) const;
  // Held while an operator of a region draws, so that other regions do not draw meanwhile.
  static std::mutex& lock();

 private:
  void put() const;
  bool is_seeded_since() const;

  // Mutable to take its lock; its current state is independent of this object.
  mutable at::Generator of;
  // For an accelerator the seed and the offset; for the CPU the engine and its leftover samples.
  uint64_t seed = 0, offset = 0;
  std::optional<at::mt19937> engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};

// Makes a CPU generator separate from the process's, in its current state. Draws from it take no numbers from other
// threads.
at::Generator own_generator();

// Draws of one operator on the CPU: from a copy of the process's generator, which gets the copy's state at the end. No
// other thread draws from it meanwhile.
class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  at::Generator process;
  const std::lock_guard<std::mutex> alone;

 public:
  const at::Generator copy;
};

// While one of these is alive, operators of this thread, and operators that they call, draw from the given generator.
class Drawing {
 public:
  // Changes nothing if the generator is the process's.
  explicit Drawing(const at::Generator& generator);
  ~Drawing();
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

  // Null if none is alive.
  static const at::Generator*& current() noexcept;
  // True if operators of this thread are intercepted for another reason than this.
  static bool is_key_included() noexcept;

 private:
  const at::Generator* outer;
  const bool included, excluded;
};

// True for an operator that draws random numbers and, with these arguments, draws none.
bool draws_nothing(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
// The generator that the caller has given; undefined if none.
at::Generator given_generator(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
// True for an operator on the CPU that draws from the process's generator whatever it is given. Its arguments are last
// on the stack.
bool draws_from_process(const c10::OperatorHandle& op, const Operator& operation, const torch::jit::Stack& stack);
// Puts a generator into the arguments of an operator, which are last on the stack. Throws if it would draw from
// the process's generator anyway.
void give_generator(const c10::OperatorHandle& op, const Operator& operation, torch::jit::Stack& stack, const at::Generator& generator);

}  // namespace toma
