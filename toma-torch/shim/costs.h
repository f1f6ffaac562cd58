// Time and memory of the stages of a region, measured while they run.
//
// A peak is measured from one operator to the next. A run that saves activations takes more memory than one that drops
// them, by the bytes that only slots hold or would hold. So each run yields both peaks.
#pragma once

#include "meter.h"
#include "shim.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace toma {

class Tape;
class Storages;

// One run of a stage, in bytes beyond those at its start. Without a device, only the time is measured.
class Run {
 public:
  explicit Run(std::optional<c10::Device> device = std::nullopt);
  // From now on a run that saves would hold `more` additional bytes, and one that drops would hold `less` fewer.
  void holds(int64_t more, int64_t less);
  // Records the peak since the last call.
  void note();
  uint64_t dropping() const { return most_dropping; }
  uint64_t saving() const { return most_saving; }
  uint64_t elapsed_ns() const;
  int64_t start() const { return meter ? meter->start() : 0; }

 private:
  uint64_t began;
  std::optional<Meter> meter;
  int64_t more = 0, less = 0;
  uint64_t most_dropping = 0, most_saving = 0;
};

class Costs {
 public:
  explicit Costs(Tape& tape);

  // `stage_begins` and `stage_ends` enclose a first run; `between` is called between the operators of any run. `device`
  // is that of the first operator.
  void stage_begins(c10::Device device);
  void between(uint32_t stage, Run& run, bool is_first) const;
  void stage_ends();
  void joins(uint32_t first);
  void unites(uint32_t second);
  void region_ends();

  void repeated(uint32_t stage, bool saves, const Run& run);
  void backward_arrives();
  void backward_begins(uint32_t stage);
  void backward_ends();
  void is_over();
  Storages held_values() const;

  // False for a known structure, which needs no measurement.
  bool learns() const { return is_learning; }
  void learn_nothing() { is_learning = false; }
  Run run() const { return is_learning ? Run(device) : Run(); }
  Run first;

 private:
  int64_t dropped_bytes(uint32_t stage) const;
  int64_t held_bytes_of(uint32_t stage) const;
  template <class F>
  void each_slot(uint32_t stage, const F& body) const;
  int64_t held_before(uint32_t stage) const;
  std::vector<uint32_t> held_elsewhere() const;
  int64_t staying(uint32_t stage) const;
  int64_t bytes_of_values(const std::vector<uint32_t>& numbers, Storages counted) const;
  void sizes();
  void leaves();
  int64_t allocated() const { return meter ? meter->now() - meter->start() : 0; }
  void tell(uint64_t repeated_ns, bool is_over) const;
  int64_t held_by_tape() const;
  int64_t left() const;
  void publish();

  Tape& tape;
  bool is_learning = true;
  std::vector<toma_stage> stages;
  // Bytes allocated between the begin of the region and the begin of each stage.
  std::vector<int64_t> starts;
  // Values that the program also held at the begin of each stage.
  std::vector<std::vector<uint32_t>> elsewhere;
  // Device of the first operator.
  c10::Device device = c10::kCPU;
  std::optional<Meter> meter;
  Run backward, after;
  // Stage whose backward is measured.
  uint32_t backward_of;
  bool has_arrived = false;
  // Bytes that slots hold when that backward begins.
  uint64_t held_bytes = 0;
  // Peak after the end of the region, beyond the bytes that remain when backward arrives at it.
  uint64_t fallen_bytes = 0;
  // Bytes of outputs that the last stage saves. A recomputation makes new ones, which its backward frees.
  uint64_t output_bytes = 0;
  // Bytes of the gradients that variables lacked when the region ended.
  uint64_t lacking_bytes = 0;
};

}  // namespace toma
