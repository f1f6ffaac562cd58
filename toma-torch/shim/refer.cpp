// References of operators to tensors, and their writes, which decide if a stage can be recomputed.

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "guard.h"
#include "tape.h"

namespace toma {
namespace {

// Stands for the graph that computed a tensor, so that its alias is no leaf when an operator is recomputed.
struct Root final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

bool looks_like(const at::Tensor& tensor, const at::Tensor& alias) {
  if (tensor.requires_grad() != alias.requires_grad() || storage_of(tensor) != storage_of(alias) || tensor.layout() != c10::kStrided) {
    return tensor.requires_grad() == alias.requires_grad() && tensor.layout() == alias.layout() && tensor.layout() != c10::kStrided;
  }
  if (tensor.is_nested() || alias.is_nested()) {
    return tensor.is_nested() && alias.is_nested();
  }
  return form_of(tensor) == form_of(alias);
}

// Moves a tensor into the given memory, if that is still alive.
void move_to(at::Tensor& tensor, const WeakStorage& memory) {
  const auto alive = memory.lock();
  if (alive && tensor.defined() && storage_of(tensor) != alive.get()) {
    tensor = alias_of(tensor);
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::Storage(alive));
  }
}

constexpr auto* outside_words = " writes to memory that tensors from outside the region share";

bool is_true(const torch::jit::Stack& arguments, uint32_t at) {
  return at != none && arguments[at].isBool() && arguments[at].toBool();
}

}  // namespace

uint64_t form_of(const at::Tensor& tensor) {
  const auto type = static_cast<uint64_t>(tensor.scalar_type());
  if (tensor.layout() != c10::kStrided || tensor.is_nested()) {
    return type;
  }
  auto form = mixed(type, static_cast<uint64_t>(tensor.storage_offset()));
  for (int64_t dimension = 0; dimension < tensor.dim(); ++dimension) {
    form = mixed(mixed(form, static_cast<uint64_t>(tensor.size(dimension))), static_cast<uint64_t>(tensor.stride(dimension)));
  }
  return form;
}

at::Tensor alias_with_history(const at::Tensor& tensor, bool wants_gradient) {
  auto alias = alias_of(tensor);
  if (wants_gradient) {
    auto root = std::make_shared<Root>();
    const auto input = root->add_input_metadata(tensor);
    torch::autograd::impl::set_gradient_edge(alias, {std::move(root), input});
  }
  return alias;
}

// Number of the value that a tensor is; none for other tensors.
uint32_t Tape::known_value(const at::Tensor& tensor) {
  const auto known = value_of.find(tensor.unsafeGetTensorImpl());
  if (known != value_of.end()) {
    return is_as_made(values[known->second], tensor) ? known->second : none;
  }
  const auto made = storages.find(storage_of(tensor));
  const auto number = made == storages.end() ? none : made->second.value;
  if (number == none || values[number].tensor.use_count() > 0 || !is_as_made(values[number], tensor)) {
    return none;
  }
  // Functions of libtorch that make tensors wrap the result of their operator in another tensor.
  auto& value = values[number];
  // The address of the old tensor may be reused from now on.
  value_of.erase(value.tensor._unsafe_get_target());
  value.tensor = WeakTensor(tensor.getIntrusivePtr());
  facts.values[number].is_alive = true;
  value_of[tensor.unsafeGetTensorImpl()] = number;
  if (value.kept.defined() && !value.is_copied) {
    keep_value(value, tensor);
  }
  return number;
}

// True if the tensor is as operators of the region left it. Programs can make it require a gradient in other ways, give
// it other memory, and write to it from other threads.
bool Tape::is_as_made(const Value& value, const at::Tensor& tensor) const {
  const auto* storage = storage_of(tensor);
  const auto made = storages.find(storage);
  const auto is_ours = made != storages.end() && made->second.value != none;
  return value.wants_gradient == tensor.requires_grad() && value.storage._unsafe_get_target() == storage &&
      value.form == form_of(tensor) && (!is_ours || made->second.version == version_of(tensor));
}

// Replaces the tensors in the arguments by references.
void Tape::refer(Op& op) {
  const auto& operation = *op.operation;
  each_tensor_in(op.arguments, [&](const at::Tensor& tensor, uint32_t argument, uint32_t element) {
    Ref ref{argument, element, known_value(tensor), none, version_of(tensor)};
    if (ref.value != none) {
      use(ref.value, tensor);
    } else {
      ref.outside = outside_for(tensor);
    }
    const auto is_statistic = argument == operation.mean || argument == operation.variance;
    const auto may_update = is_statistic && !operation.named.reads_statistics;
    ref.is_updated = may_update && (operation.trains == none || is_true(op.arguments, operation.trains));
    const auto is_written = ref.is_updated || operation.is_written[argument];
    if (!is_written && (is_statistic || may_change_unseen(ref, tensor))) {
      ref.copy = copy_of(tensor);
    }
    op.refs.push_back(ref);
    if (is_written) {
      write(op, ref, tensor);
    }
  });
  for (const auto& ref : op.refs) {
    auto& argument = op.arguments[ref.argument];
    if (ref.element == none) {
      argument = c10::IValue();
    } else if (argument.isList()) {
      argument = argument.toList().copy();
    }
  }
  for (const auto& ref : op.refs) {
    if (ref.element != none) {
      op.arguments[ref.argument].toList().set(ref.element, at::Tensor());
    }
  }
}

// True if a tensor from outside, or a view of one, may be running statistics that the program reads itself. These are
// untrained vectors with one number for each channel, in any shape.
bool Tape::may_change_unseen(const Ref& ref, const at::Tensor& tensor) const {
  constexpr int64_t most_channels = 1 << 13;
  const auto may_be = tensor.is_floating_point() && !tensor.requires_grad() && bytes_of(tensor) > 0 && tensor.numel() <= most_channels;
  if (!may_be || ref.outside != none) {
    const auto is_other = [](int64_t size) { return size > 1; };
    return may_be && std::count_if(tensor.sizes().begin(), tensor.sizes().end(), is_other) <= 1;
  }
  const auto made = storages.find(storage_of(tensor));
  return made != storages.end() && made->second.value == none;
}

// Storage of the tensor. Null for one without a storage of its own, as a sparse one: any storage may be a part of it.
const c10::StorageImpl* Tape::storage_read(const Ref& ref) const {
  return ref.outside != none ? storage_of(outsides[ref.outside].alias) : values[ref.value].storage._unsafe_get_target();
}

uint32_t Tape::outside_for(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto known = outside_of.find(impl);
  if (known != outside_of.end() && looks_like(tensor, outsides[known->second].alias)) {
    return known->second;
  }
  const auto number = static_cast<uint32_t>(outsides.size());
  const auto is_variable = tensor.is_leaf() && tensor.requires_grad();
  auto alias = alias_with_history(tensor, tensor.requires_grad() && !is_variable);
  if (is_variable) {
    alias.set_requires_grad(true);
  }
  const auto bytes = taken_bytes(bytes_of(tensor), tensor.device());
  outsides.push_back({WeakTensor(tensor.getIntrusivePtr()), std::move(alias), tensor.requires_grad(), is_variable, bytes});
  outside_of[impl] = number;
  if (const auto* storage = storage_of(tensor)) {
    auto& made = storages.emplace(storage, Made{weak_storage_of(tensor), none}).first->second;
    made.is_outside = true;
  }
  return number;
}

// Gives operators tensors from outside without their graph, in a region that leaves no trace. With it, backward would
// add to gradients and use up a graph that others need.
void Tape::leave_graph(torch::jit::Stack& stack) {
  const auto first = stack.size() - ops.back().arguments.size();
  for (const auto& ref : ops.back().refs) {
    if (ref.outside == none || !outsides[ref.outside].wants_gradient || outsides[ref.outside].is_variable) {
      continue;
    }
    const auto& alias = outsides[ref.outside].alias;
    outside_of[alias.unsafeGetTensorImpl()] = ref.outside;
    auto& argument = stack[first + ref.argument];
    if (ref.element == none) {
      argument = alias;
    } else {
      argument = argument.toList().copy();
      argument.toList().set(ref.element, alias);
    }
  }
}

bool Tape::is_inside(const at::Tensor& tensor) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  const auto known = outside_of.find(tensor.unsafeGetTensorImpl());
  const auto is_alias = known != outside_of.end() && outsides[known->second].alias.is_same(tensor);
  const auto is_variable = known != outside_of.end() && tensor.is_leaf();
  return !tensor.requires_grad() || is_alias || is_variable || known_value(tensor) != none;
}

// Holds a value of an earlier stage from its first use on, if a recomputation of this stage starts from it. At the end
// of its own stage a later use is not known yet.
void Tape::use(uint32_t value, const at::Tensor& tensor) {
  facts.values[value].last_op = static_cast<uint32_t>(ops.size());
  facts.values[value].last_stage = current();
  if (!values[value].held.defined() && is_needed(value)) {
    hold(values[value], tensor);
  }
}

void Tape::hold(Value& value, const at::Tensor& tensor) {
  value.held = alias_with_history(tensor, value.wants_gradient);
}

void Tape::keep_value(Value& value, const at::Tensor& tensor) {
  value.kept = alias_of(tensor);
  value.kept_version = version_of(tensor);
}

// Statistics are written by their first run alone. Other operators that read them are treated as after any write.
void Tape::write(const Op& op, const Ref& ref, const at::Tensor& tensor) {
  if (storage_of(tensor) == nullptr) {
    if (notes->undo != nullptr) {
      throw c10::NotImplementedError(op.name() + " writes to a tensor that is sparse or has another layout, which cannot be undone", nullptr);
    }
    keep_readers(op, nullptr);
    return keep(current(), op.name() + outside_words);
  }
  const auto found = storages.find(storage_of(tensor));
  if (found == storages.end()) {
    return;
  }
  const auto* storage = found->first;
  if (notes->undo != nullptr && (found->second.value == none || found->second.is_outside)) {
    if (!ref.is_updated && gives_gradient(op.handle.schema(), op.arguments, tensor)) {
      throw c10::NotImplementedError(op.name() + " gives a gradient to a tensor from outside of the region, which cannot be undone", nullptr);
    }
    notes->undo->write(tensor);
  }
  if (found->second.is_outside) {
    keep_readers(op, storage);
    if (!ref.is_updated) {
      keep(current(), op.name() + outside_words);
    }
  }
  const auto& made = found->second;
  if (made.value == none) {
    return;
  }
  if (auto& value = values[made.value]; value.kept.defined() && !value.is_copied) {
    keep_value(value, value.kept.clone());
    value.is_copied = true;
  }
  if (const auto stage = facts.values[made.value].stage; stage < current()) {
    join(stage);
  }
  if (made.is_outside) {
    hold_memory(storage);
  }
}

// A write that does not count in the version of a value is visible in every tensor saved from its memory, but would not
// be visible in recomputed tensors. So saved and held tensors move to the original memory.
void Tape::hold_memory(const c10::StorageImpl* storage) {
  for (auto& slot : slots) {
    if (slot.storage._unsafe_get_target() == storage) {
      move_to(slot.tensor, slot.storage);
    }
  }
  for (auto& value : values) {
    if (value.storage._unsafe_get_target() == storage) {
      move_to(value.held, value.storage);
    }
  }
}

// Keeps the stages that have read the memory: they cannot be recomputed once it is written.
void Tape::keep_readers(const Op& op, const c10::StorageImpl* storage) {
  for (uint32_t stage = 0; stage <= current(); ++stage) {
    const auto begin = ops.begin() + stages[stage].first_op, end = ops.begin() + end_op(stage);
    if (std::any_of(begin, end, [&](const Op& other) { return reads(other, storage); })) {
      keep(stage, op.name() + outside_words);
    }
  }
}

bool Tape::reads(const Op& op, const c10::StorageImpl* storage) const {
  const auto is_of = [&](const Ref& ref) {
    const auto* read = storage_read(ref);
    return !ref.is_updated && (read == storage || read == nullptr);
  };
  return std::any_of(op.refs.begin(), op.refs.end(), is_of);
}

// An operator may have made the tensor that it wrote require a gradient, and with it all tensors that share its memory.
void Tape::written(const Op& op) {
  if (op.operation->named.detaches) {
    detached(op);
  }
  for (const auto& ref : op.refs) {
    if (ref.value == none || !(ref.is_updated || op.operation->is_written[ref.argument])) {
      continue;
    }
    const auto alive = values[ref.value].tensor.lock();
    const auto made = storages.find(values[ref.value].storage._unsafe_get_target());
    if (!alive || made == storages.end()) {
      continue;
    }
    const at::Tensor tensor(alive);
    values[ref.value].form = form_of(tensor);
    made->second.version = version_of(tensor);
    if (tensor.requires_grad() != values[ref.value].wants_gradient) {
      share_gradient(made->first);
    }
  }
}

// Nodes of libtorch reject a saved argument that was detached since.
void Tape::detached(const Op& op) {
  const auto value = op.refs.front().value;
  for (auto& slot : slots) {
    slot.is_detached |= value != none && slot.argument == value;
  }
}

void Tape::share_gradient(const c10::StorageImpl* storage) {
  for (auto& value : values) {
    if (value.storage._unsafe_get_target() == storage) {
      const auto alive = value.tensor.lock();
      value.wants_gradient = alive ? at::Tensor(alive).requires_grad() : value.wants_gradient;
    }
  }
}

// Recomputes the dropped tensors of a stage while that is possible, and holds everything that it saves from now on.
void Tape::keep(uint32_t stage, const std::string& why) {
  auto& kept = stages[stage];
  if (kept.is_kept) {
    return;
  }
  // If this fails, the stage is not kept yet and can still be recomputed.
  if (is_missing(stage) || lacks_output(stage)) {
    run(stage, true, true);
  }
  kept.is_kept = true;
  notes->kept += "stage " + std::to_string(stage) + ": " + why + "\n";
  for (auto slot = kept.first_slot; slot < end_slot(stage); ++slot) {
    slots[slot].is_saved = true;
    hold_input(slots[slot]);
  }
  kept.action = TOMA_SAVE;
  kept.holds_output = true;
  hold_needed();
}

// Holds the live values that boundaries need by now.
void Tape::hold_needed() {
  for (uint32_t number = 0; number < values.size(); ++number) {
    if (is_needed(number) && !values[number].held.defined()) {
      if (const auto alive = values[number].tensor.lock()) {
        hold(values[number], at::Tensor(alive));
      }
    }
  }
}

// True if later stages have used a value that is neither alive nor held.
bool Tape::lacks_output(uint32_t stage) const {
  for (uint32_t number = 0; number < values.size(); ++number) {
    const auto& value = values[number];
    if (passes(facts.values[number], stage) && !value.held.defined() && value.tensor.use_count() == 0) {
      return true;
    }
  }
  return false;
}

// Holds an input that was dropped, if it is still alive.
void Tape::hold_input(Slot& slot) const {
  const auto alive = slot.value == none || slot.tensor.defined() ? c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()
                                                                 : values[slot.value].tensor.lock();
  if (alive) {
    slot.tensor = alias_of(at::Tensor(alive));
  }
}

}  // namespace toma
