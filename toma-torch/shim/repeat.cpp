// Tensors that backward requests, and the stages that are recomputed for them.

#include <algorithm>

#include "replay.h"

namespace toma {

bool saves(uint32_t action) { return action == TOMA_SAVE || action == TOMA_SAVE_ALONE; }

// True if a boundary that is held needs the value.
bool Tape::is_needed(uint32_t number) const {
  const auto& value = facts.values[number];
  const auto begin = stages.begin() + value.stage, end = stages.begin() + std::min<size_t>(value.last_stage, stages.size());
  return std::any_of(begin, std::max(begin, end), [](const toma_recorded& stage) { return stage.holds_output; });
}

// Drops the values that no held boundary needs.
void Tape::drop_unneeded() noexcept {
  for (uint32_t number = 0; number < values.size(); ++number) {
    if (values[number].held.defined() && !is_needed(number)) {
      values[number].held.reset();
    }
  }
}

// True if a node of the stage waits for a saved tensor that is missing.
bool Tape::is_missing(uint32_t stage) const {
  // An input that is dropped on purpose is recomputed on its own.
  const auto is_left = stages[stage].action == TOMA_SAVE_ALONE;
  for (auto number = stages[stage].first_slot; number < end_slot(stage); ++number) {
    const auto& slot = slots[number];
    if (!facts.slots[number].is_dead && !slot.tensor.defined() && !(is_left && slot.value != none)) {
      return true;
    }
  }
  return false;
}

// Recomputes `stage` and every stage since the last held boundary before it. In a region that learns, these stages are
// small and are saved together.
void Tape::run(uint32_t stage, bool saves, bool holds_output) {
  if (!holds_output && !is_missing(stage)) {
    return;
  }
  const auto lacks_input = stage > 0 && !stages[stage - 1].holds_output;
  if (lacks_input) {
    run(stage - 1, costs.learns(), true);
  }
  if (stages[stage].is_kept && !saves) {
    fail("stage ", stage, " cannot be recomputed, and its output is not held");
  }
  const auto held_before = std::exchange(stages[stage].holds_output, stages[stage].holds_output || holds_output);
  try {
    // Planned stages are measured already, so their run may stop early.
    Replay(*this, stage, saves).all(holds_output || !saves || plan.empty());
  } catch (...) {
    stages[stage].holds_output = held_before;
    throw;
  }
  stages[stage].is_saved |= saves;
  if (lacks_input && costs.learns()) {
    release(stage - 1);
  }
  if (!has_ended && reached != none && stages[stage].holds_output && !held_before) {
    held_inside.push_back(stage);
  }
}

// Drops the values of a boundary that no later run starts from.
void Tape::release(uint32_t boundary) noexcept {
  if (stages[boundary].is_kept || !std::exchange(stages[boundary].holds_output, false)) {
    return;
  }
  drop_unneeded();
}

// Called when the backward of a stage begins: tensors that are held for later stages are not needed any more.
void Tape::reach(uint32_t stage) {
  if (reached == stage) {
    return;
  }
  if (has_ended) {
    costs.backward_ends();
    costs.backward_arrives();
  }
  drop_read(std::exchange(reached, stage));
  if (!has_ended) {
    return;
  }
  for (auto boundary = current() + 1; boundary-- > stage;) {
    stages[boundary].is_saved = boundary == stage && stages[boundary].is_saved;
    release(boundary);
  }
  follow_plan(stage);
}

// Drops the tensors that the backward of a stage has read, and that are held because the region learns. `none` is no
// stage.
void Tape::drop_read(uint32_t stage) {
  for (auto slot = stage == none ? end_slot(current()) : stages[stage].first_slot; slot < end_slot(std::min(stage, current())); ++slot) {
    if (std::exchange(slots[slot].is_read, false) && !slots[slot].is_saved) {
      slots[slot].tensor.reset();
    }
  }
}

// A backward inside the region has ended: drops the tensors that it recomputed in addition to the plan.
void Tape::leave_inside() {
  if (std::exchange(reached, none) == none) {
    return;
  }
  for (const auto boundary : std::exchange(held_inside, {})) {
    release(boundary);
  }
  for (auto& stage : stages) {
    stage.is_saved = saves(stage.action);
  }
  for (auto& slot : slots) {
    if (!slot.is_saved) {
      slot.tensor.reset();
    }
  }
}

// Executes the actions of the plan before the backward of a stage. A backward inside the region comes before the whole
// plan. A backward that the plan has already passed continues from the tensors that are held.
void Tape::follow_plan(uint32_t stage) {
  const auto is_backward = [&](const toma_action& action) { return action.kind == TOMA_BACKWARD && action.stage == stage; };
  const auto end = std::find_if(plan.begin() + static_cast<ptrdiff_t>(cursor), plan.end(), is_backward);
  if (!has_ended || end == plan.end()) {
    return;
  }
  for (; plan[cursor].kind != TOMA_BACKWARD || plan[cursor].stage != stage; ++cursor) {
    act(plan[cursor]);
  }
}

void Tape::act(toma_action action) {
  const auto stage = action.stage;
  if (action.kind == TOMA_BACKWARD) {
    stages[stage].is_saved = false;
    return release(stage);
  }
  if (action.kind == TOMA_KEEP && stage > 0 && !stages[stage - 1].holds_output) {
    run(stage - 1, false, true);
  }
  stages[stage].action = action.kind;
  run(stage, saves(action.kind), action.holds_output);
  const auto drops_input = action.kind == TOMA_DROP || action.kind == TOMA_SAVE_ALONE;
  // Outputs of a saved stage stay held.
  if (drops_input && stage > 0 && !stages[stage - 1].is_saved) {
    release(stage - 1);
  }
}

// Checks versions as libtorch does without hooks.
void Tape::check_unchanged(const Slot& slot) const {
  if (slot.is_detached) {
    fail("a tensor that ", ops[slot.op].name(), " saved was detached in place");
  }
  if (slot.counter.current_version() != slot.version) {
    fail(
        "one of the variables needed for gradient computation has been modified by an inplace operation: ", ops[slot.op].name(),
        " saved it at version ", slot.version, ", and it is at version ", slot.counter.current_version());
  }
}

// True if the slot saves a value of an earlier stage that a boundary holds.
bool Tape::is_input_held(const Slot& slot) const {
  return slot.value != none && values[slot.value].held.defined() && version_of(values[slot.value].held) == slot.version;
}

at::Tensor Tape::unpack(uint32_t number) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  const auto stage = stage_of(number);
  check_unchanged(slots[number]);
  const auto begins = reached != stage;
  reach(stage);
  const auto is_there = [&] { return slots[number].tensor.defined() || is_input_held(slots[number]); };
  if (!is_there()) {
    run(stage, true, false);
  }
  // An input that its stage has dropped, and that no plan recomputes: in a backward inside the region.
  if (!is_there() && slots[number].value != none) {
    run(stage - 1, false, true);
  }
  if (begins && has_ended) {
    costs.backward_begins(stage);
  }
  auto& slot = slots[number];
  if (!slot.tensor.defined() && is_input_held(slot)) {
    return alias_of(values[slot.value].held);
  }
  if (!slot.tensor.defined()) {
    fail("stage ", stage, " did not make a tensor that ", ops[slot.op].name(), " saves when it was recomputed");
  }
  // The engine sums up gradients of broadcast operands before a node lets go of its tensors. A region that learns holds
  // them until then, as a plan that saves them does.
  slot.is_read = costs.learns() && !slot.is_saved;
  return slot.is_saved || slot.is_read ? slot.tensor : std::exchange(slot.tensor, at::Tensor());
}

// None for a nested tensor, whose parts have sizes of their own.
std::vector<int64_t> sizes_of(const at::Tensor& tensor) { return tensor.is_nested() ? std::vector<int64_t>() : tensor.sizes().vec(); }

// Number of the value that a tensor is, as operators of the region left it; none for other tensors.
uint32_t Tape::value_of_saved(const at::Tensor& tensor) const {
  const auto known = value_of.find(tensor.unsafeGetTensorImpl());
  return known == value_of.end() || !is_as_made(values[known->second], tensor) ? none : known->second;
}

uint32_t Tape::pack(const at::Tensor& tensor) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  const auto number = static_cast<uint32_t>(slots.size());
  const auto* storage = storage_of(tensor);
  const auto made = storages.find(storage);
  const auto is_known = storage != nullptr && made != storages.end();
  const auto* first = is_known && made->second.value != none ? &values[made->second.value] : nullptr;
  const auto is_kept = first != nullptr && first->kept.defined() && !first->is_copied;
  const auto is_outside = storage == nullptr || is_kept || (is_known && first == nullptr);
  const auto known = value_of_saved(tensor);
  const auto value = known != none && facts.values[known].stage < current() ? known : none;
  const auto is_saved = is_outside || stages.back().action == TOMA_SAVE || (stages.back().action == TOMA_SAVE_ALONE && value == none);
  Slot slot{tensor.unsafeGetTensorImpl()->version_counter(), version_of(tensor), static_cast<uint32_t>(ops.size()) - 1, is_saved};
  slot.value = value;
  // A tensor that the operator writes to is also its result.
  slot.argument = ops.back().operation->writes ? none : known;
  slot.tensor = is_saved ? alias_of(tensor) : at::Tensor();
  slot.sizes = sizes_of(tensor);
  slot.kind = tensor.scalar_type();
  // Running statistics have changed when their operator is recomputed, and its backward does not use them.
  const auto is_statistic = tensor.dim() == 1 && ops.back().updates_statistics();
  slot.hash = verify && !is_outside && !is_statistic ? hash_of(tensor) : 0;
  if (storage != nullptr) {
    slot.storage = tensor.storage().getWeakStorageImpl();
  }
  facts.slots.push_back({storage, taken_bytes(tensor), nullptr, none, is_outside, false, true});
  slots.push_back(std::move(slot));
  return number;
}

void Tape::forget(uint32_t number) noexcept {
  const std::lock_guard<std::recursive_mutex> held(lock);
  if (number < slots.size()) {
    facts.slots[number].is_dead = true;
    slots[number].tensor.reset();
  }
}

}  // namespace toma
