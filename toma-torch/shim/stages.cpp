// Stages of a region without a plan: their boundaries, and the inputs that the first run holds.

#include <algorithm>
#include <utility>

#include "tape.h"

namespace toma {
namespace {

// Values unused for so many operators are taken for temporaries that only wait for the end of their statement.
constexpr uint32_t recent = 16;
// Limits of stages that end where few bytes are alive. A stage drops at least 1 / `most_stages` of the bytes dropped
// before it.
constexpr uint32_t fewest_ops = 3, most_stages = 64;
// After so many candidates, a stage ends although backward does not need the live bytes.
constexpr uint32_t patience = 4;

bool is_alive(const Value& value) { return value.tensor.use_count() > 0; }

}  // namespace

// Live bytes of recently used values, which are held if a stage begins now, except the storages in `but`.
uint64_t Tape::alive_bytes(Storages but) const {
  return bytes_where(std::move(but), [&](const Value& value) { return value.last_op + recent >= ops.size() && is_alive(value); });
}

// Bytes that the slots from stage `first` up to slot `end` would hold in addition to the live bytes.
uint64_t Tape::dropped_bytes(uint32_t first, uint32_t end) const {
  Storages dropped;
  for (auto slot = stages[first].first_slot; slot < end; ++slot) {
    if (!slots[slot].is_outside && slots[slot].storage.use_count() == 0) {
      dropped.add(slots[slot].storage._unsafe_get_target(), slots[slot].bytes);
    }
  }
  return dropped.bytes;
}

// True if fewer bytes are alive than the stage has dropped, and no fewer were lately: a good point to begin the next
// stage, most of all if backward needs the live bytes. Stages grow with the region, so there are never many.
bool Tape::is_thin() {
  const auto alive = alive_bytes({}), dropped = dropped_bytes(current(), end_slot(current()));
  const auto least = *std::min_element(lately_alive.begin(), lately_alive.end());
  lately_alive[ops.size() % lately_alive.size()] = alive;
  const auto is_large = most_stages * dropped >= dropped_before && ops.size() >= stages.back().first_op + fewest_ops;
  if (!is_large || dropped == 0 || alive > dropped || alive > least) {
    return false;
  }
  // The live bytes may be more if backward needs them anyway.
  const auto is_saved = 2 * alive_bytes(saved_storages()) <= alive;
  if (!is_saved && (2 * alive > dropped || ++passed <= patience)) {
    return false;
  }
  passed = 0;
  dropped_before += dropped;
  return true;
}

// Holds the input of the stage that ends now if the stages since the last held boundary have dropped twice as many
// bytes, and as many as all held bytes. Of n equal stages some sqrt(2 n) inputs are then held, and as many stages are
// saved together.
void Tape::drop_input() {
  if (!costs.learns() || current() == 0) {
    return;
  }
  const auto boundary = current() - 1;
  auto first = boundary;
  while (first > 0 && !stages[first - 1].holds_output) {
    --first;
  }
  const auto dropped = dropped_bytes(first, end_slot(boundary));
  if (2 * passing_bytes(boundary, {}) > dropped || costs.held_values().bytes > dropped || is_idle(boundary, saved_storages())) {
    release(boundary);
  }
}

// Merges small stages at boundaries that backward does not need, because a plan counts boundaries that it holds as
// saved.
void Tape::unite() {
  if (!costs.learns() || !notes->kept.empty()) {
    return;
  }
  const auto saved = saved_storages();
  for (auto second = current(); second > 0; --second) {
    if (is_idle(second - 1, saved)) {
      unite(second);
    }
  }
}

// True if backward needs less than half of the bytes at a boundary, and few other bytes of one of the two stages: to
// hold the input of that stage, or its output, is then equally good.
bool Tape::is_idle(uint32_t boundary, const Storages& saved) const {
  const auto passing = passing_bytes(boundary, {});
  const auto is_small = [&](uint32_t stage) { return 2 * inner_bytes(stage) <= passing; };
  return 2 * passing_bytes(boundary, saved) > passing && (is_small(boundary) || is_small(boundary + 1));
}

// Bytes of stages up to `boundary` that later stages use, except the storages in `but`.
uint64_t Tape::passing_bytes(uint32_t boundary, Storages but) const {
  return bytes_where(std::move(but), [&](const Value& value) { return value.stage <= boundary && boundary < value.last_stage; });
}

// Bytes of a stage that backward needs, except its output.
uint64_t Tape::inner_bytes(uint32_t stage) const {
  Storages counted;
  for (const auto& value : values) {
    const auto may_follow = stage == current() && is_alive(value);
    if (value.stage <= stage && (stage < value.last_stage || may_follow)) {
      counted.add(value.storage._unsafe_get_target(), 0);
    }
  }
  for (auto number = stages[stage].first_slot; number < end_slot(stage); ++number) {
    const auto& slot = slots[number];
    const auto made = storages.find(slot.storage._unsafe_get_target());
    if (!slot.is_outside && !slot.is_dead && (made == storages.end() || made->second.stage == stage)) {
      counted.add(slot.storage._unsafe_get_target(), slot.bytes);
    }
  }
  return counted.bytes;
}

// Storages of all stages that backward needs.
Storages Tape::saved_storages() const {
  Storages saved;
  for (const auto& slot : slots) {
    if (!slot.is_dead) {
      saved.add(slot.storage._unsafe_get_target(), 0);
    }
  }
  return saved;
}

// Merges a stage with the one before it.
void Tape::unite(uint32_t second) {
  costs.unites(second);
  stages[second - 1].holds_output = stages[second].holds_output;
  stages.erase(stages.begin() + second);
  const auto renumber = [&](uint32_t& stage) { stage -= stage != none && stage >= second ? 1 : 0; };
  for (auto& value : values) {
    renumber(value.stage);
    renumber(value.last_stage);
    if (!is_needed(value)) {
      value.held.reset();
    }
  }
  for (auto& [storage, made] : storages) {
    renumber(made.stage);
  }
  for (auto slot = stages[second - 1].first_slot; slot < end_slot(second - 1); ++slot) {
    auto& value = slots[slot].value;
    value = value != none && values[value].stage == second - 1 ? none : value;
  }
}

}  // namespace toma
