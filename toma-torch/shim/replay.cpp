// Running stages again, and what backward asks for.

#include "replay.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>

#include "guard.h"

namespace toma {

bool saves(uint32_t action) { return action == TOMA_SAVE || action == TOMA_SAVE_ALONE; }

namespace {

constexpr auto keys_of_modes = [] {
  using c10::DispatchKey;
  return c10::autocast_dispatch_keyset | c10::autograd_dispatch_keyset | c10::DispatchKeySet(DispatchKey::ADInplaceOrView);
};

[[noreturn]] void changed(const char* what, const Op& op) {
  fail(what, " ", op.name(), ", has been modified by an inplace operation, so it cannot be repeated");
}

}  // namespace

uint64_t& repeated_position() noexcept {
  static thread_local uint64_t position = 0;
  return position;
}

Replay*& Replay::running() noexcept {
  static thread_local Replay* replay = nullptr;
  return replay;
}

Replay::Replay(Tape& tape, uint32_t stage, bool saves)
    : tape(tape), stage(stage), saves(saves), slot(tape.stages[stage].first_slot), outer(std::exchange(running(), this)),
      before_position(repeated_position()),
      costs(tape.costs.learns()) {
  toma_modes_get(&before);
}

Replay::~Replay() {
  running() = outer;
  repeated_position() = before_position;
  toma_error error;
  toma_modes_set(&before, &error);
}

// Grad mode, inference mode and autocast are those of the operator, all else is that of the thread. What autocast casts
// meanwhile goes with the nesting.
void Replay::set_modes(const toma_modes& modes) {
  auto now = before;
  const auto ours = keys_of_modes().raw_repr();
  now.included = (before.included & ~ours) | (modes.included & ours);
  now.excluded = (before.excluded & ~ours) | (modes.excluded & ours) | c10::DispatchKeySet(mode_key).raw_repr();
  now.autograd = modes.autograd;
  now.autocast_depth = before.autocast_depth + 1;
  now.autocast_dtypes = modes.autocast_dtypes;
  toma_error error;
  if (toma_modes_set(&now, &error) != TOMA_OK) {
    fail(error.message);
  }
}

// The state of random numbers is the process's: it is as before as soon as the operator has drawn.
void Replay::draw(const Op& op, torch::jit::Stack& stack) {
  const std::lock_guard<std::mutex> alone(Random::lock());
  struct Before {
    Random random;
    ~Before() { random.set(); }
  } before{Random(op.device)};
  op.random->set();
  op.handle.callBoxed(&stack);
  if (!(Random(op.device) == *op.random_after)) {
    fail(op.name(), " drew random numbers while another thread drew from the same, so it cannot be repeated");
  }
}

const at::Tensor& Replay::argument(const Op& op, const Ref& ref) const {
  if (ref.outside != none) {
    const auto& alias = tape.outsides[ref.outside].alias;
    if (version_of(alias) != ref.version && !ref.is_updated) {
      changed("a tensor from outside the region, an argument of", op);
    }
    return alias;
  }
  const auto made = values.find(ref.value);
  if (made != values.end()) {
    return made->second;
  }
  const auto& value = tape.values[ref.value];
  TORCH_INTERNAL_ASSERT(value.held.defined(), "checkpoint: an input of the stage is not held");
  if (version_of(value.held) != ref.version) {
    changed("a tensor of the region, an argument of", op);
  }
  return value.held;
}

torch::jit::Stack Replay::arguments_of(const Op& op) const {
  auto stack = op.arguments;
  for (const auto& ref : op.refs) {
    if (ref.element != none) {
      stack[ref.argument] = stack[ref.argument].toList().copy();
    }
  }
  for (const auto& ref : op.refs) {
    const auto& tensor = argument(op, ref);
    if (ref.element != none) {
      stack[ref.argument].toList().set(ref.element, tensor);
    } else if (ref.is_updated && ref.outside != none) {
      // Updated once, by the first run.
      const Exempt exempt;
      stack[ref.argument] = tensor.clone();
    } else {
      stack[ref.argument] = tensor;
    }
  }
  return stack;
}

void Replay::run(uint32_t number) {
  const auto& op = tape.ops[number];
  if (op.is_kept()) {
    return take_kept(op);
  }
  if (last_modes == nullptr || std::memcmp(last_modes, &op.modes, sizeof op.modes) != 0) {
    set_modes(op.modes);
    last_modes = &op.modes;
  }
  auto stack = arguments_of(op);
  repeated_position() = op.position;
  op.random == nullptr ? op.handle.callBoxed(&stack) : draw(op, stack);
  take(number, stack);
  for (const auto& ref : op.refs) {
    if (ref.value != none && tape.values[ref.value].last_op == number && !tape.is_needed(tape.values[ref.value])) {
      values.erase(ref.value);
    }
  }
}

void Replay::take_kept(const Op& op) {
  for (const auto number : op.makes) {
    const auto& value = tape.values[number];
    if (version_of(value.kept) != value.kept_version) {
      changed("a tensor of the region, a result of", op);
    }
    values[number] = value.is_copied ? value.kept.clone() : value.kept;
  }
}

// Holds what the operator has made as long as it is needed.
void Replay::take(uint32_t number, const torch::jit::Stack& results) {
  const auto& makes = tape.ops[number].makes;
  size_t at = 0;
  each_tensor_in(results, [&](const at::Tensor& tensor, uint32_t, uint32_t) {
    const auto made = at < makes.size() ? makes[at++] : none;
    if (made != none && (tape.values[made].last_op > number || tape.is_needed(tape.values[made]))) {
      values[made] = tensor;
    }
  });
}

// What the operator in progress saves for backward.
void Replay::pack(const at::Tensor& tensor) {
  const auto number = slot++;
  if (number >= tape.end_slot(stage)) {
    fail("stage ", stage, " saves more tensors when it is repeated");
  }
  auto& packed = tape.slots[number];
  if (tensor.sizes() != packed.sizes || tensor.scalar_type() != packed.kind) {
    fail("a tensor of stage ", stage, " was ", packed.sizes, " of ", packed.kind, ", and is ", tensor.sizes(), " of ", tensor.scalar_type(), " when it is repeated");
  }
  if (packed.is_outside || packed.is_dead || !saves) {
    return;
  }
  if (packed.hash != 0 && hash_of(tensor) != packed.hash) {
    fail("stage ", stage, ": a tensor that ", tape.ops[packed.op].name(), " saves differs when it is repeated");
  }
  const auto is_left = packed.value != none && tape.stages[stage].action == TOMA_SAVE_ALONE;
  if (!packed.tensor.defined() && !is_left) {
    packed.tensor = alias_of(tensor);
    filled.push_back(number);
  }
}

// The last operator whose results something waits for.
uint32_t Replay::last_needed() const {
  const auto first = tape.slots.begin() + tape.stages[stage].first_slot, end = tape.slots.begin() + tape.end_slot(stage);
  const auto is_alive = [](const Slot& slot) { return !slot.is_dead && !slot.is_outside; };
  const auto last = std::find_if(std::make_reverse_iterator(end), std::make_reverse_iterator(first), is_alive);
  return last.base() == first ? tape.stages[stage].first_op : last->op;
}

void Replay::all(bool is_whole) {
  const auto first = tape.stages[stage].first_op;
  const auto end = is_whole ? tape.end_op(stage) : last_needed() + 1;
  try {
    for (auto op = first; op < end; ++op) {
      run(op);
      if (saves) {
        tape.costs.between(stage, costs, false);
      }
    }
    if (is_whole && slot != tape.end_slot(stage)) {
      fail("stage ", stage, " saves fewer tensors when it is repeated");
    }
  } catch (...) {
    for (const auto number : filled) {
      tape.slots[number].tensor.reset();
    }
    throw;
  }
  hold_outputs();
  tape.costs.repeated(stage, saves, costs);
}

void Replay::hold_outputs() {
  for (const auto& [number, tensor] : values) {
    auto& value = tape.values[number];
    if (tape.is_needed(value) && !value.held.defined()) {
      tape.hold(value, tensor);
    }
  }
}

// Whether a boundary that is held needs it.
bool Tape::is_needed(const Value& value) const {
  const auto begin = stages.begin() + value.stage, end = stages.begin() + std::min<size_t>(value.last_stage, stages.size());
  return std::any_of(begin, std::max(begin, end), [](const Stage& stage) { return stage.holds_output; });
}

// Whether a node of the stage waits for what it saved.
bool Tape::is_missing(uint32_t stage) const {
  // An input that is dropped on purpose is remade by itself.
  const auto is_left = stages[stage].action == TOMA_SAVE_ALONE;
  const auto is_missing = [&](const Slot& slot) {
    return !slot.is_dead && !slot.tensor.defined() && !(is_left && slot.value != none);
  };
  return std::any_of(slots.begin() + stages[stage].first_slot, slots.begin() + end_slot(stage), is_missing);
}

// Runs what lies between it and what is held before it as well.
void Tape::run(uint32_t stage, bool saves, bool holds_output) {
  if (!holds_output && !is_missing(stage)) {
    return;
  }
  if (stage > 0 && !stages[stage - 1].holds_output) {
    run(stage - 1, false, true);
  }
  TORCH_INTERNAL_ASSERT(!stages[stage].is_kept || saves, "checkpoint: a stage that is kept is run again");
  const auto held_before = std::exchange(stages[stage].holds_output, stages[stage].holds_output || holds_output);
  try {
    // What was planned is measured already.
    Replay(*this, stage, saves).all(holds_output || !saves || plan.empty());
  } catch (...) {
    stages[stage].holds_output = held_before;
    throw;
  }
  stages[stage].is_saved |= saves;
}

// What no later run begins with.
void Tape::release(uint32_t boundary) noexcept {
  if (stages[boundary].is_kept || !std::exchange(stages[boundary].holds_output, false)) {
    return;
  }
  for (auto& value : values) {
    if (value.stage <= boundary && boundary < value.last_stage && !is_needed(value)) {
      value.held.reset();
    }
  }
}

// The backward of a stage begins: what is held for later ones is not needed any more.
void Tape::reach(uint32_t stage) {
  if (reached == stage) {
    return;
  }
  if (has_ended) {
    costs.backward_ends();
    costs.backward_arrives();
  }
  reached = stage;
  for (auto boundary = current() + 1; boundary-- > stage;) {
    stages[boundary].is_saved = boundary == stage && stages[boundary].is_saved;
    release(boundary);
  }
  follow_plan(stage);
}

// Does what the plan does before the backward of a stage. A backward inside the region comes before all that is
// planned, and one that has come by already goes on from what is held.
void Tape::follow_plan(uint32_t stage) {
  const auto is_backward = [&](const toma_action& action) { return action.kind == TOMA_BACKWARD && action.stage == stage; };
  const auto end = std::find_if(plan.begin() + static_cast<ptrdiff_t>(cursor), plan.end(), is_backward);
  if (!has_ended || end == plan.end()) {
    return;
  }
  for (; plan[cursor].kind != TOMA_BACKWARD || plan[cursor].stage != stage; ++cursor) {
    const auto &action = plan[cursor], &next = plan[cursor + 1];
    act(action, next.kind != TOMA_BACKWARD || next.stage != action.stage);
  }
}

void Tape::act(toma_action action, bool holds_output) {
  const auto stage = action.stage;
  if (action.kind == TOMA_BACKWARD) {
    stages[stage].is_saved = false;
    return release(stage);
  }
  if (action.kind == TOMA_KEEP && stage > 0 && !stages[stage - 1].holds_output) {
    run(stage - 1, false, true);
  }
  stages[stage].action = action.kind;
  run(stage, saves(action.kind), holds_output);
  const auto drops_input = action.kind == TOMA_DROP || action.kind == TOMA_SAVE_ALONE;
  // What a saved stage holds stays.
  if (drops_input && stage > 0 && !stages[stage - 1].is_saved) {
    release(stage - 1);
  }
}

// As libtorch does where there are no hooks.
void Tape::check_version(const Slot& slot) const {
  if (slot.counter.current_version() != slot.version) {
    fail(
        "one of the variables needed for gradient computation has been modified by an inplace operation: ", ops[slot.op].name(),
        " saved it at version ", slot.version, ", and it is at version ", slot.counter.current_version());
  }
}

// Whether it is a value of an earlier stage that a boundary holds.
bool Tape::is_input_held(const Slot& slot) const {
  return slot.value != none && values[slot.value].held.defined() && version_of(values[slot.value].held) == slot.version;
}

at::Tensor Tape::unpack(uint32_t number) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  const auto stage = stage_of(number);
  check_version(slots[number]);
  const auto begins = reached != stage;
  reach(stage);
  if (!slots[number].tensor.defined() && !is_input_held(slots[number])) {
    run(stage, true, false);
  }
  if (begins && has_ended) {
    costs.backward_begins(stage);
  }
  auto& slot = slots[number];
  if (!slot.tensor.defined() && is_input_held(slot)) {
    return alias_of(values[slot.value].held);
  }
  TORCH_INTERNAL_ASSERT(slot.tensor.defined(), "checkpoint: a repetition has not made what it should");
  return slot.is_saved ? slot.tensor : std::exchange(slot.tensor, at::Tensor());
}

// The value of an earlier stage that a tensor is; none for others.
uint32_t Tape::input_of(const at::Tensor& tensor) const {
  const auto known = value_of.find(tensor.unsafeGetTensorImpl());
  return known != value_of.end() && values[known->second].stage < current() ? known->second : none;
}

uint32_t Tape::pack(const at::Tensor& tensor) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  const auto number = static_cast<uint32_t>(slots.size());
  const auto* storage = storage_of(tensor);
  const auto made = storages.find(storage);
  const auto is_known = storage != nullptr && made != storages.end();
  const auto is_kept = is_known && made->second.value != none && values[made->second.value].kept.defined() && !made->second.is_written;
  const auto is_outside = storage == nullptr || is_kept || (is_known && made->second.stage == none);
  const auto value = input_of(tensor);
  const auto is_saved = is_outside || stages.back().action == TOMA_SAVE || (stages.back().action == TOMA_SAVE_ALONE && value == none);
  Slot slot{tensor.unsafeGetTensorImpl()->version_counter(), version_of(tensor), static_cast<uint32_t>(ops.size()) - 1, is_outside, is_saved};
  slot.value = value;
  slot.tensor = is_saved ? alias_of(tensor) : at::Tensor();
  slot.sizes = tensor.sizes().vec();
  slot.kind = tensor.scalar_type();
  // Running statistics have moved on when their operator is repeated, and its backward does not use them.
  const auto is_statistic = tensor.dim() == 1 && ops.back().updates_statistics();
  slot.hash = verify && !is_outside && !is_statistic ? hash_of(tensor) : 0;
  if (storage != nullptr) {
    slot.storage = tensor.storage().getWeakStorageImpl();
    slot.bytes = storage->nbytes();
  }
  slots.push_back(std::move(slot));
  return number;
}

void Tape::forget(uint32_t number) noexcept {
  const std::lock_guard<std::recursive_mutex> held(lock);
  if (number < slots.size()) {
      slots[number].is_dead = true;
    slots[number].tensor.reset();
  }
}

}  // namespace toma
