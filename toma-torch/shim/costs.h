// Measurements of a region: time and memory of its stages while they run, and the facts that decisions are made from.
//
// A peak is measured from one operator to the next. A run that saves activations takes more memory than one that drops
// them, by the bytes that only slots hold or would hold. So each run yields both peaks.
#pragma once

#include "meter.h"
#include "shim.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace toma {

class Tape;

// One run of a stage, in bytes beyond those at its start. Without a device, only the time is measured.
class Run {
 public:
  explicit Run(std::optional<c10::Device> device = std::nullopt);
  // From now on a run that saves would hold `more` additional bytes, and one that drops would hold `less` fewer.
  void holds(int64_t more, int64_t less);
  // Records the peak since the last call.
  void note();
  toma_run figures() const;
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

  // Returns true if the next operator begins a stage.
  bool begins_stage();
  // `stage_begins` and `stage_ends` enclose a first run; `between` is called between the operators of any run. `device`
  // is that of the first operator.
  void stage_begins(c10::Device device);
  void between(uint32_t stage, Run& run, bool is_first) const;
  // Returns true if the input of the stage is to be dropped.
  bool stage_ends();
  void joins(uint32_t first);
  // Called after each operator of a first run: the program may have freed memory that it held when the stage began.
  void note_freed();
  // Returns for each stage if it is merged with the one before.
  std::unique_ptr<bool[]> region_ends();
  void await_backward() { after = run(); }

  void repeated(uint32_t stage, bool saves, const Run& run);
  void backward_arrives();
  void backward_begins(uint32_t stage);
  void backward_ends();
  void is_over();

  // False for a known structure, which needs no measurement.
  bool learns() const { return is_learning; }
  void learn_nothing() { is_learning = false; }
  // Adds the bytes that a stage needs, and `measure`, to the error of a first run.
  void explain(c10::OutOfMemoryError& error) const;
  Run run() const { return is_learning ? Run(device) : Run(); }
  Run first;

 private:
  int64_t dropped_bytes(uint32_t stage) const;
  int64_t held_bytes_of(uint32_t stage) const;
  template <class F>
  void each_slot(uint32_t stage, const F& body) const;
  void look_at_values();
  void look_at_slots();
  toma_region_report report(toma_moment moment, uint32_t stage = 0) const;
  toma_region_report report_with_facts(toma_moment moment, uint32_t stage = 0);
  toma_facts facts() const;
  bool notify(const toma_region_report& report) const;
  std::optional<toma_region_report> take_backward();
  // 0 on a thread that the region does not count.
  int64_t allocated() const { return meter && meter->counts_here() ? meter->now() - meter->start() : 0; }
  toma_run end_first();
  void leaves();
  void publish();

  Tape& tape;
  bool is_learning = true;
  // Device of the first operator.
  c10::Device device = c10::kCPU;
  std::optional<Meter> meter;
  Run backward, after;
  // Stage whose backward is measured.
  uint32_t backward_of;
  bool has_arrived = false;
  // Slots whose memory has been alive since the last stage began.
  std::vector<uint32_t> staying;
  // Largest peak of the stages whose first run has ended, if they save.
  uint64_t least_bytes = 0;
};

}  // namespace toma
