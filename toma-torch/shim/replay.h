// One recomputation of a stage.
#pragma once

#include "tape.h"

namespace toma {

// While one of these is alive, tensors that the thread saves for backward are caught, and modes and random numbers are
// those of the first run. Its end restores them.
class Replay {
 public:
  Replay(Tape& tape, uint32_t stage, bool saves);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Runs the whole stage, or only up to the last operator that makes a needed tensor.
  void all(bool is_whole);
  void pack(const at::Tensor& tensor);

  // Replay of this thread; null for none.
  static Replay*& running() noexcept;

 private:
  void set_modes(const toma_modes& modes);
  void draw(const Op& op, torch::jit::Stack& stack);
  const at::Tensor& argument(const Op& op, const Ref& ref) const;
  torch::jit::Stack arguments_of(const Op& op) const;
  void run(uint32_t number);
  void take(uint32_t number, const torch::jit::Stack& results);
  void take_kept(const Op& op);
  uint32_t last_needed() const;
  void hold_outputs();

  Tape& tape;
  const uint32_t stage;
  const bool saves;
  uint32_t slot;
  Replay* const outer;
  const uint64_t before_position;
  toma_modes before;
  const toma_modes* last_modes = nullptr;
  ska::flat_hash_map<uint32_t, at::Tensor> values;
  // Slots that this replay has filled.
  std::vector<uint32_t> filled;
  Run costs;
};

}  // namespace toma
