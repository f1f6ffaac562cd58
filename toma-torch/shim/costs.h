// What the stages of a region take, measured while they run.
//
// A peak is measured from one operator to the next. Memory that only slots hold, or would hold, is what a run that
// saves takes more than one that does not, so each run tells of both.
#pragma once

#include "meter.h"
#include "shim.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace toma {

class Tape;
class Storages;

// One run of a stage, in bytes beyond those at its start. Takes the time alone where no device is given.
class Run {
 public:
  explicit Run(std::optional<c10::Device> device = std::nullopt);
  // So much more a run would hold from now on that saves, and so much less one that does not.
  void holds(int64_t more, int64_t less);
  // Notes the peak since it was last noted.
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

  // Stages run for the first time, and of any run what is between its operators. The first operator is on the device.
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

  // What is known of the structure needs no measuring.
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
  // Allocated since the region began, when each of them did.
  std::vector<int64_t> starts;
  // Values that the program held as well, when each of them did.
  std::vector<std::vector<uint32_t>> elsewhere;
  // Of the device of the first operator.
  c10::Device device = c10::kCPU;
  std::optional<Meter> meter;
  Run backward, after;
  // The stage whose backward is measured.
  uint32_t backward_of;
  bool has_arrived = false;
  // What slots hold when it begins.
  uint64_t held_bytes = 0;
  // What was needed beyond that only to make the gradient of the outputs.
  uint64_t fallen_bytes = 0;
  // Outputs that the last stage saves: a repetition makes others, which its backward frees.
  uint64_t output_bytes = 0;
  // The gradients that variables lacked when the region ended.
  uint64_t lacking_bytes = 0;
};

}  // namespace toma
