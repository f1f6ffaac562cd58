// One recomputation of a stage.

#include "replay.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>

#include "guard.h"
#include "offload.h"

namespace toma {
namespace {

constexpr auto keys_of_modes = [] {
  using c10::DispatchKey;
  return c10::autocast_dispatch_keyset | c10::autograd_dispatch_keyset | c10::DispatchKeySet(DispatchKey::ADInplaceOrView);
};

[[noreturn]] void changed(const char* tensor, const Op& op) {
  fail(tensor, " ", op.name(), ", has been modified by an inplace operation, so it cannot be recomputed");
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
      costs(tape.costs.run()) {
  toma_modes_get(&before);
}

Replay::~Replay() {
  running() = outer;
  repeated_position() = before_position;
  toma_error error;
  toma_modes_set(&before, &error);
}

// Sets grad mode, inference mode and autocast of the operator; all other modes stay those of the thread. One more level
// of nesting drops the casts that autocast makes meanwhile.
void Replay::set_modes(const toma_modes& modes) {
  auto now = before;
  const auto ours = keys_of_modes().raw_repr();
  now.included = (before.included & ~ours) | (modes.included & ours);
  now.excluded = (before.excluded & ~ours) | (modes.excluded & ours) | (is_offloading() ? 0 : c10::DispatchKeySet(mode_key).raw_repr());
  now.autograd = modes.autograd;
  now.autocast_depth = before.autocast_depth + 1;
  now.autocast_dtypes = modes.autocast_dtypes;
  toma_error error;
  if (toma_modes_set(&now, &error) != TOMA_OK) {
    fail(error.message);
  }
}

// The state of random numbers may belong to the process, so it is restored as soon as the operator has drawn.
void Replay::draw(const Op& op, torch::jit::Stack& stack) {
  const std::lock_guard<std::mutex> alone(Random::lock());
  struct Before {
    Random random;
    ~Before() { random.set(); }
  } before{Random(op.random->generator())};
  op.random->set();
  const Drawing drawing(op.random->generator());
  op.handle.callBoxed(&stack);
  if (!(Random(op.random->generator()) == *op.random_after)) {
    fail(op.name(), " drew random numbers while another thread drew from the same, so it cannot be recomputed");
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
  if (!value.held.defined() && value.kept.defined()) {
    changed("a tensor of the region, an argument of", op);
  }
  if (!value.held.defined()) {
    fail("stage ", stage, ": an argument of ", op.name(), " is not held");
  }
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
      stack[ref.argument].toList().set(ref.element, ref.copy.defined() ? ref.copy : tensor);
    } else if (ref.copy.defined()) {
      stack[ref.argument] = ref.copy;
    } else if (ref.is_updated && ref.outside != none) {
      // Statistics were updated once, by the first run.
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
    if (ref.value != none && tape.facts.values[ref.value].last_op == number && !tape.is_needed(ref.value)) {
      values.erase(ref.value);
    }
  }
}

void Replay::take_kept(const Op& op) {
  for (const auto number : op.makes) {
    const auto& value = tape.values[number];
    // Otherwise another thread has filled it since, and operators that take it after that read its memory.
    if (version_of(value.kept) == value.kept_version) {
      values[number] = value.is_copied ? value.kept.clone() : value.kept;
    }
  }
}

// Holds the results of the operator as long as they are needed.
void Replay::take(uint32_t number, const torch::jit::Stack& results) {
  const auto& makes = tape.ops[number].makes;
  size_t at = 0;
  each_tensor_in(results, [&](const at::Tensor& tensor, uint32_t, uint32_t) {
    const auto made = at < makes.size() ? makes[at++] : none;
    if (made != none && (tape.facts.values[made].last_op > number || tape.is_needed(made))) {
      values[made] = tensor;
    }
  });
}

// Called for each tensor that the current operator saves for backward.
void Replay::pack(const at::Tensor& tensor) {
  const auto number = slot++;
  if (number >= tape.end_slot(stage)) {
    fail("stage ", stage, " saves more tensors when it is recomputed");
  }
  auto& packed = tape.slots[number];
  if (sizes_of(tensor) != packed.sizes || tensor.scalar_type() != packed.kind) {
    fail("a tensor of stage ", stage, " was ", packed.sizes, " of ", packed.kind, ", and is ", sizes_of(tensor), " of ", tensor.scalar_type(), " when it is recomputed");
  }
  if (tape.facts.slots[number].is_outside || tape.facts.slots[number].is_dead || !saves) {
    return;
  }
  if (packed.hash != 0 && hash_of(tensor) != packed.hash) {
    fail("stage ", stage, ": a tensor that ", tape.ops[packed.op].name(), " saves differs when it is recomputed");
  }
  const auto is_left = packed.value != none && tape.stages[stage].action == TOMA_SAVE_ALONE;
  if (!packed.tensor.defined() && !is_left) {
    packed.tensor = alias_of(tensor);
    filled.push_back(number);
  }
}

// Last operator that makes a saved tensor still waited for.
uint32_t Replay::last_needed() const {
  for (auto number = tape.end_slot(stage); number-- > tape.stages[stage].first_slot;) {
    if (!tape.facts.slots[number].is_dead && !tape.facts.slots[number].is_outside) {
      return tape.slots[number].op;
    }
  }
  return tape.stages[stage].first_op;
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
      fail("stage ", stage, " saves fewer tensors when it is recomputed");
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
    if (tape.is_needed(number) && !value.held.defined()) {
      tape.hold(value, tensor);
    }
  }
}

}  // namespace toma
