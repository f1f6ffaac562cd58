// Recording of the operators of a region, of its stages, and of the tensors that they make.

#include "tape.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "guard.h"
#include "offload.h"

namespace toma {
namespace {

// Number of operators up to which a region records without allocating again.
constexpr size_t small = 8;

uint64_t shape_of(uint64_t sum, const at::Tensor& tensor) {
  sum = mixed(sum, static_cast<uint64_t>(tensor.scalar_type()) << 8 | static_cast<uint64_t>(tensor.device().type()) << 1 | tensor.requires_grad());
  if (tensor.layout() == c10::kStrided && !tensor.is_nested()) {
    for (const auto size : tensor.sizes()) {
      sum = mixed(sum, static_cast<uint64_t>(size));
    }
  }
  return sum;
}

// The accelerator, if an argument names it or one of the tensors is on it.
c10::Device device_of(const torch::jit::Stack& arguments) {
  c10::Device device = c10::kCPU;
  for (const auto& argument : arguments) {
    device = argument.isDevice() ? argument.toDevice() : device;
  }
  each_tensor_in(arguments, [&](const at::Tensor& tensor, uint32_t, uint32_t) { device = tensor.is_cpu() ? device : tensor.device(); });
  return device;
}

}  // namespace

Tape::Tape(toma_choose choose, void* context, toma_region_options options)
    : choose_plan(choose), context(context), verify(options.verify), observe(options.observe), guest(options.guest), costs(*this) {
  ops.reserve(small);
  values.reserve(small);
  facts.values.reserve(small);
  slots.reserve(small);
  facts.slots.reserve(small);
  if (options.undoes) {
    notes->undo = std::make_unique<Undo>();
  }
}

Tape::~Tape() { costs.is_over(); }

std::shared_ptr<Tape>*& recording() noexcept {
  static thread_local std::shared_ptr<Tape>* tape = nullptr;
  return tape;
}

void Tape::call(const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  const auto& operation = operator_of(handle);
  const BelowTape below_tape;
  if (!operation.makes_tensors && !operation.writes) {
    return handle.callBoxed(stack);
  }
  const auto first_slot = record(handle, operation, stack);
  if (notes->undo != nullptr) {
    leave_graph(stack);
  }
  try {
    operation.is_random && !draws_nothing(handle, stack) ? draw(stack) : handle.callBoxed(stack);
  } catch (c10::OutOfMemoryError& error) {
    remove_last_op(first_slot);
    costs.explain(error);
    throw;
  } catch (...) {
    remove_last_op(first_slot);
    throw;
  }
  const std::lock_guard<std::recursive_mutex> held(lock);
  made(ops.back(), torch::jit::last(stack, handle.schema().returns().size()).vec());
  costs.between(current(), costs.first, true);
  costs.note_freed();
}

// On the CPU no other thread draws during this operator. On an accelerator, and for operators that take no generator,
// only other regions wait.
void Tape::draw(torch::jit::Stack& stack) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  const std::lock_guard<std::mutex> alone(Random::lock());
  const auto device = ops.back().device;
  const auto undoes = notes->undo != nullptr;
  auto generator = given_generator(ops.back().handle, stack);
  const auto is_of_process = !generator.defined();
  std::optional<Turn> turn;
  if (is_of_process && device.is_cpu() && undoes) {
    generator = notes->undo->generator;
  } else if (is_of_process && device.is_cpu() && !draws_from_process(ops.back().handle, *ops.back().operation, stack)) {
    generator = turn.emplace().copy;
  }
  auto random = generator.defined() ? std::make_shared<const Random>(generator) : std::make_shared<const Random>(device);
  if (undoes && !(is_of_process && device.is_cpu())) {
    notes->undo->draws(*random);
  }
  // Index of the running operator, which stays valid whatever the operator saves.
  const auto number = ops.size() - 1;
  ops[number].random = random;
  const Drawing drawing(random->generator());
  ops[number].handle.callBoxed(&stack);
  ops[number].random_after = std::make_shared<const Random>(random->generator());
}

// Called before the operator runs, which may change its arguments. Returns its first slot.
uint32_t Tape::record(const c10::OperatorHandle& handle, const Operator& operation, const torch::jit::Stack& stack) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  Op op{handle, &operation, torch::jit::last(stack, handle.schema().arguments().size()).vec()};
  toma_modes_get(&op.modes);
  op.position = toma_profile_position();
  op.device = device_of(op.arguments);
  leave_inside();
  follow_structure(op);
  try {
    refer(op);
    if (op.draws_from_cudnn()) {
      keep(current(), op.name() + " draws its dropout from a state of cuDNN, which cannot be set again");
    }
  } catch (...) {
    notes->prints.pop_back();
    throw;
  }
  costs.between(current(), costs.first, true);
  ops.push_back(std::move(op));
  return static_cast<uint32_t>(slots.size());
}

// Removes the last operator, which has failed, as if it had not run.
void Tape::remove_last_op(uint32_t first_slot) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  ops.pop_back();
  notes->prints.pop_back();
  slots.resize(first_slot);
  facts.slots.resize(first_slot);
}

uint64_t Tape::print_of(const Op& op) const {
  auto sum = mixed(op.operation->number, op.modes.autograd);
  sum = mixed(mixed(sum, op.modes.excluded & c10::autocast_dispatch_keyset.raw_repr()), op.modes.autocast_dtypes);
  each_tensor_in(op.arguments, [&](const at::Tensor& tensor, uint32_t argument, uint32_t) {
    const auto made = value_of.find(tensor.unsafeGetTensorImpl());
    sum = shape_of(mixed(sum, made == value_of.end() ? none : made->second), tensor);
    sum = mixed(sum, argument);
  });
  return sum;
}

// Begins stages, and detects the first operator that differs from the known structure.
void Tape::follow_structure(const Op& op) {
  const auto print = print_of(op);
  const auto number = static_cast<uint32_t>(ops.size());
  if (stages.empty() || (is_known && (number >= known.size() || known[number] != print))) {
    auto begun = notes->prints;
    begun.push_back(print);
    choose(begun, false, op.device);
  }
  notes->prints.push_back(print);
  const auto known_cut = next_cut < cuts.size() && cuts[next_cut] == number;
  next_cut += known_cut ? 1 : 0;
  if (stages.empty() || (is_known ? known_cut : must_cut || (layers == 0 && costs.begins_stage()))) {
    begin_stage(op.device);
  }
  must_cut = false;
}

void Tape::drop_plan() {
  plan.clear();
  cursor = 0;
}

// Called when the known structure does not match the next operator, or the end of the region.
void Tape::differ() {
  is_known = false;
  drop_plan();
  must_cut = true;
  notes->figures.differs = ops.size();
}

// Looks up the structure of a region that begins with these operators. If it is another one than expected, recording
// continues with that one.
void Tape::choose(const std::vector<uint64_t>& begun, bool is_whole, c10::Device device) {
  // `join` has dropped the plan, whose stages no longer match.
  if (is_known && plan.empty()) {
    return differ();
  }
  toma_chosen chosen;
  toma_error error{};
  const auto code = choose_plan(context, {begun.data(), begun.size(), is_whole, numbers_of(device)}, &chosen, &error);
  if (code != TOMA_OK) {
    throw_error(code, error);
  }
  if (chosen.print_count > 0) {
    adopt(chosen);
  } else if (is_known) {
    differ();
  }
}

void Tape::adopt(const toma_chosen& chosen) {
  known.assign(chosen.prints, chosen.prints + chosen.print_count);
  cuts.assign(chosen.cuts, chosen.cuts + chosen.cut_count);
  plan.assign(chosen.actions, chosen.actions + chosen.action_count);
  is_known = true;
  costs.learn_nothing();
  // The plan begins with the first run of each stage.
  cursor = std::min(plan.size(), cuts.size() + 1);
  hold_repeated();
}

// Holds live inputs of recomputations that the new plan contains and the previous one did not.
void Tape::hold_repeated() {
  for (uint32_t number = 0; number < std::min(stages.size(), plan.size()); ++number) {
    stages[number].holds_output |= plan[number].holds_output && !lacks_output(number);
  }
  hold_needed();
}

// The first action of the plan for a stage is its first run. Without a plan, its input is held.
void Tape::begin_stage(c10::Device device) {
  // The operator for which the last stage began has failed, so this one begins it.
  if (!stages.empty() && stages.back().first_op == ops.size()) {
    return;
  }
  if (!stages.empty() && costs.stage_ends()) {
    release(current() - 1);
  }
  const auto number = static_cast<uint32_t>(stages.size());
  const auto action = plan.empty() ? toma_action{TOMA_KEEP, number, false} : plan[number];
  stages.push_back({static_cast<uint32_t>(ops.size()), static_cast<uint32_t>(slots.size()), action.kind, action.holds_output, false, saves(action.kind)});
  if (action.kind == TOMA_KEEP && number > 0) {
    stages[number - 1].holds_output = true;
  }
  costs.stage_begins(device);
}

void Tape::made(Op& op, const torch::jit::Stack& results) {
  written(op);
  each_tensor_in(results, [&](const at::Tensor& tensor, uint32_t, uint32_t) {
    const auto* impl = tensor.unsafeGetTensorImpl();
    const auto is_argument = value_of.count(impl) > 0 || outside_of.count(impl) > 0;
    op.makes.push_back(is_argument ? none : value_for(tensor, op));
  });
}

uint32_t Tape::value_for(const at::Tensor& tensor, const Op& op) {
  const auto number = static_cast<uint32_t>(values.size()), at = static_cast<uint32_t>(ops.size()) - 1;
  const auto* storage = storage_of(tensor);
  values.push_back({WeakTensor(tensor.getIntrusivePtr()), weak_storage_of(tensor), bytes_of(tensor), tensor.requires_grad(), form_of(tensor)});
  facts.values.push_back({storage, taken_bytes(tensor), 0, current(), current(), at, true, false, false});
  auto& value = values.back();
  if (op.is_kept()) {
    keep_value(value, tensor);
  }
  if (storage != nullptr) {
    // A view of an argument without a storage of its own shares its memory.
    const auto has_none = [&](const Ref& ref) { return storage_read(ref) == nullptr; };
    const auto is_outside = op.operation->is_view && std::any_of(op.refs.begin(), op.refs.end(), has_none);
    storages.emplace(storage, Made{value.storage, number, is_outside, version_of(tensor)});
  }
  value_of[tensor.unsafeGetTensorImpl()] = number;
  return number;
}

void Tape::cut(int32_t deeper) {
  must_cut = true;
  layers += deeper;
}

void Tape::end() {
  const std::lock_guard<std::recursive_mutex> held(lock);
  leave_inside();
  has_ended = true;
  if (is_known && ops.size() < known.size()) {
    end_early();
  }
  // The operator that began the last stage has failed, and none has followed. There is nothing to keep of it.
  if (!is_known && stages.size() > 1 && stages.back().first_op == ops.size()) {
    stages.back().is_kept = false;
    join(current() - 1);
  }
  if (!stages.empty()) {
    const auto merges = costs.region_ends();
    for (auto second = current(); second > 0; --second) {
      if (merges[second]) {
        unite(second);
      }
    }
    costs.await_backward();
  }
}

// The operators may be those of another known region. If no plan is found, the region differs from all known ones.
void Tape::end_early() {
  if (ops.empty()) {
    return differ();
  }
  try {
    choose(notes->prints, true, ops.back().device);
  } catch (const c10::Error&) {
    differ();
  }
}

uint32_t Tape::end_op(uint32_t stage) const {
  return static_cast<uint32_t>(stage == current() ? ops.size() : stages[stage + 1].first_op);
}

uint32_t Tape::end_slot(uint32_t stage) const {
  return static_cast<uint32_t>(stage == current() ? slots.size() : stages[stage + 1].first_slot);
}

uint32_t Tape::stage_of(uint32_t slot) const {
  const auto begins_after = [](uint32_t slot, const toma_recorded& stage) { return slot < stage.first_slot; };
  return static_cast<uint32_t>(std::upper_bound(stages.begin(), stages.end(), slot, begins_after) - stages.begin()) - 1;
}

}  // namespace toma
