// Merging of neighboring stages.

#include <algorithm>

#include "tape.h"

namespace toma {

template <class F>
void Tape::renumber(const F& number_of) {
  for (auto& value : facts.values) {
    value.stage = number_of(value.stage);
    value.last_stage = number_of(value.last_stage);
  }
  // A value that the stage itself has made is none of its inputs.
  for (uint32_t number = 0; number < slots.size(); ++number) {
    auto& value = slots[number].value;
    value = value != none && facts.values[value].stage == stage_of(number) ? none : value;
  }
  drop_unneeded();
}

// Merges the stages from `first` on, because a later one writes to a tensor that an earlier one has made.
void Tape::join(uint32_t first) {
  const auto is_kept = std::any_of(stages.begin() + first, stages.end(), [](const toma_recorded& stage) { return stage.is_kept; });
  // A kept stage cannot be recomputed as a whole, so the dropped tensors of each part are recomputed first.
  for (auto stage = first; is_kept && stage <= current(); ++stage) {
    keep(stage, "a stage that writes to its own results is kept");
  }
  costs.joins(first);
  stages.resize(first + 1);
  stages[first].holds_output = false;
  drop_plan();
  renumber([&](uint32_t stage) { return std::min(stage, first); });
  if (is_kept) {
    stages[first].action = TOMA_SAVE;
    stages[first].holds_output = stages[first].is_kept = true;
  }
}

// Merges a stage with the one before it, when the region has ended.
void Tape::unite(uint32_t second) {
  stages[second - 1].holds_output = stages[second].holds_output;
  stages.erase(stages.begin() + second);
  renumber([&](uint32_t stage) { return stage - (stage >= second ? 1 : 0); });
}

}  // namespace toma
