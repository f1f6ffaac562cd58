// Recording of one region, and recomputation of its stages.
//
// A stage is a sequence of operators. Each tensor that they save for backward is a slot, which holds the tensor only
// while the plan saves them. An empty slot is filled by running the recorded operators of its stage again, never the
// user's code. The boundary after a stage is the set of tensors that later stages use of it and of earlier ones; while
// it is held, the next stage can be recomputed.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <c10/util/flat_hash_map.h>

#include "costs.h"
#include "operators.h"
#include "random.h"
#include "shim.h"

namespace toma {

inline uint64_t nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Tensors, gradients and random states as they were before the region changed them.
struct Undo {
  struct Written {
    at::Tensor tensor, before;
    uint32_t version;
  };
  struct Gradient {
    at::Tensor variable, gradient;
  };

  void write(const at::Tensor& tensor);
  // Called before an operator of an accelerator draws from this state.
  void draws(const Random& state);
  void all();

  std::vector<Written> written;
  std::vector<Gradient> gradients;
  // States when the region began. Generators from which it draws are set back to them. Of the others only a new seed is
  // undone, so numbers that other threads drew stay drawn. On the CPU the region draws from its own `generator`.
  const std::vector<Random> seeds = Random::of_all();
  std::vector<Random> drawn;
  // Generator of operators on the CPU.
  const at::Generator generator = own_generator();
};

// Figures of one region, which outlive its tensors.
struct Notes {
  // A variable of the region, and the bytes of its gradient.
  struct Leaf {
    c10::weak_intrusive_ptr<c10::TensorImpl> variable;
    uint64_t bytes;
  };

  // Bytes of gradients that variables lack now.
  uint64_t lacking_bytes() const;

  std::mutex lock;
  std::vector<uint64_t> prints;
  std::vector<Leaf> leaves;
  std::string kept;
  toma_region_figures figures{0, UINT64_MAX, 0, 0, 0, 0, 0, false};
  // Null if nothing is to be undone.
  std::unique_ptr<Undo> undo;
};

// A tensor in the arguments of an operator: a value of the region, or a tensor from outside.
struct Ref {
  uint32_t argument;
  // Index in a list; none if the argument itself is the tensor.
  uint32_t element;
  uint32_t value;
  uint32_t outside;
  uint32_t version;
  // A running statistic that the operator writes.
  bool is_updated = false;
  // Copy of running statistics that the operator read: later code may write to them without a new version.
  at::Tensor copy = {};
};

struct Op {
  c10::OperatorHandle handle;
  const Operator* operation;
  // Arguments without their tensors.
  torch::jit::Stack arguments;
  std::vector<Ref> refs = {};
  // For each tensor result, in order: the number of the value, or none if it is an argument.
  std::vector<uint32_t> makes = {};
  toma_modes modes = {};
  // State before the operator; null if it draws no random numbers.
  std::shared_ptr<const Random> random = nullptr;
  // State after it: a recomputation must end in the same state.
  std::shared_ptr<const Random> random_after = nullptr;
  c10::Device device = c10::kCPU;
  // Position for the profiler, which attributes a recomputation to the line that recorded the operator.
  uint64_t position = 0;

  // True if its results are held forever: they depend on no tensor, and the program may have filled them in other ways.
  bool is_kept() const { return refs.empty() && !operation->is_random; }
  std::string name() const { return c10::toString(handle.operator_name()); }
  // True for recurrent layers with dropout on a GPU: cuDNN keeps a state of random numbers that no generator sets.
  bool draws_from_cudnn() const {
    const auto dropout = operation->dropout, trains = operation->trains;
    return device.is_cuda() && dropout != none && arguments[dropout].toDouble() > 0 && arguments[trains].toBool();
  }
  bool updates_statistics() const {
    return std::any_of(refs.begin(), refs.end(), [](const Ref& ref) { return ref.is_updated; });
  }
};

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// Hash of where in their storage the numbers of a tensor are, and of their type.
uint64_t form_of(const at::Tensor& tensor);

// A tensor made in the region. Its stages and sizes are in `Facts`.
struct Value {
  WeakTensor tensor;
  // Null without a storage.
  WeakStorage storage;
  uint64_t bytes;
  bool wants_gradient;
  // Form of the tensor after the region's last write.
  uint64_t form;
  // Set while a boundary needs it.
  at::Tensor held = {};
  // Result of an operator that is not recomputed. If it is written to, each recomputation starts with a copy.
  at::Tensor kept = {};
  uint32_t kept_version = 0;
  bool is_copied = false;
};

// A tensor from before the region, or from code that the region does not see.
struct Outside {
  WeakTensor tensor;
  // Shares memory and version with the tensor, and belongs to no graph.
  at::Tensor alias;
  bool wants_gradient, is_variable;
  uint64_t bytes;
};

// The first value in a storage; none for storages from elsewhere.
struct Made {
  WeakStorage storage;
  uint32_t value;
  // True if tensors that the region does not see share the storage.
  bool is_outside = false;
  // Version after the last operator of the region that wrote to it.
  uint32_t version = 0;
};

// A tensor that backward needs. Its size is in `Facts`.
struct Slot {
  c10::VariableVersion counter;
  uint32_t version;
  uint32_t op;
  // Held from the first run on.
  bool is_saved;
  // Value of an earlier stage, if the slot saves one; none otherwise.
  uint32_t value = none;
  // Value that the operator saves without having made it; none otherwise.
  uint32_t argument = none;
  bool is_detached = false;
  // Backward has read it, in a region that learns.
  bool is_read = false;
  at::Tensor tensor = {};
  // Expected shape and type of the recomputed tensor.
  std::vector<int64_t> sizes = {};
  c10::ScalarType kind = c10::ScalarType::Undefined;
  uint64_t hash = 0;
  WeakStorage storage = WeakStorage(c10::intrusive_ptr<c10::StorageImpl>());
};

// Facts about values and slots, by the same numbers: the part that decisions read.
struct Facts {
  std::vector<toma_value> values;
  std::vector<toma_slot> slots;
};

class Tape final {
 public:
  Tape(toma_choose choose, void* context, toma_region_options options);
  ~Tape();

  // Runs and records an operator of the region.
  void call(const c10::OperatorHandle& handle, torch::jit::Stack& stack);
  // Makes the next operator begin a stage. `deeper` is added to the nesting depth in containers that cut stages
  // themselves.
  void cut(int32_t deeper);
  void end();
  // True if a tensor depends on no graph from outside.
  bool is_inside(const at::Tensor& tensor);

  // Makes the slot for a tensor that the current operator saves.
  uint32_t pack(const at::Tensor& tensor);
  at::Tensor unpack(uint32_t slot);
  void forget(uint32_t slot) noexcept;

  const std::shared_ptr<Notes> notes = std::make_shared<Notes>();

 private:
  friend class Replay;
  friend class Costs;

  // Recording: tape.cpp.
  uint32_t record(const c10::OperatorHandle& handle, const Operator& operation, const torch::jit::Stack& stack);
  void remove_last_op(uint32_t first_slot);
  void draw(torch::jit::Stack& stack);
  uint64_t print_of(const Op& op) const;
  void follow_structure(const Op& op);
  void choose(const std::vector<uint64_t>& begun, bool is_whole, c10::Device device);
  void adopt(const toma_chosen& chosen);
  void hold_repeated();
  void differ();
  void end_early();
  void begin_stage(c10::Device device);
  void made(Op& op, const torch::jit::Stack& results);
  uint32_t value_for(const at::Tensor& tensor, const Op& op);

  // Merging of stages: stages.cpp.
  void join(uint32_t first);
  void drop_plan();
  void unite(uint32_t second);
  template <class F>
  void renumber(const F& number_of);

  // References of operators: refer.cpp.
  uint32_t known_value(const at::Tensor& tensor);
  bool is_as_made(const Value& value, const at::Tensor& tensor) const;
  void refer(Op& op);
  bool may_change_unseen(const Ref& ref, const at::Tensor& tensor) const;
  const c10::StorageImpl* storage_read(const Ref& ref) const;
  uint32_t outside_for(const at::Tensor& tensor);
  void leave_graph(torch::jit::Stack& stack);
  void use(uint32_t value, const at::Tensor& tensor);
  void hold(Value& value, const at::Tensor& tensor);
  void hold_needed();
  void keep_value(Value& value, const at::Tensor& tensor);
  void write(const Op& op, const Ref& ref, const at::Tensor& tensor);
  void keep_readers(const Op& op, const c10::StorageImpl* storage);
  void hold_memory(const c10::StorageImpl* storage);
  void written(const Op& op);
  void detached(const Op& op);
  void share_gradient(const c10::StorageImpl* storage);
  bool lacks_output(uint32_t stage) const;
  bool reads(const Op& op, const c10::StorageImpl* storage) const;
  void keep(uint32_t stage, const std::string& why);
  void hold_input(Slot& slot) const;

  // Recomputation: repeat.cpp.
  void reach(uint32_t stage);
  void drop_read(uint32_t stage);
  void leave_inside();
  void follow_plan(uint32_t stage);
  void act(toma_action action);
  void run(uint32_t stage, bool saves, bool holds_output);
  void release(uint32_t boundary) noexcept;
  bool is_needed(uint32_t value) const;
  void drop_unneeded() noexcept;
  bool is_missing(uint32_t stage) const;
  bool is_input_held(const Slot& slot) const;
  uint32_t value_of_saved(const at::Tensor& tensor) const;

  void check_unchanged(const Slot& slot) const;
  uint32_t stage_of(uint32_t slot) const;
  uint32_t end_op(uint32_t stage) const;
  uint32_t end_slot(uint32_t stage) const;
  uint32_t current() const { return static_cast<uint32_t>(stages.size()) - 1; }

  std::recursive_mutex lock;
  std::vector<Op> ops;
  std::vector<Value> values;
  std::vector<Outside> outsides;
  std::vector<Slot> slots;
  std::vector<toma_recorded> stages;
  Facts facts;
  ska::flat_hash_map<const c10::TensorImpl*, uint32_t> value_of, outside_of;
  ska::flat_hash_map<const c10::StorageImpl*, Made> storages;
  const toma_choose choose_plan;
  void* const context;
  const bool verify;
  const decltype(toma_region_options::observe) observe;
  void* const guest;
  // True while the operators are those of the known structure.
  bool is_known = false;
  std::vector<uint64_t> known;
  std::vector<uint32_t> cuts;
  size_t next_cut = 0;
  std::vector<toma_action> plan;
  // First action that is not done yet.
  size_t cursor = 0;
  int32_t layers = 0;
  bool must_cut = false, has_ended = false;
  // Stage whose backward runs.
  uint32_t reached = none;
  // Boundaries that a backward inside the region holds in addition to the plan.
  std::vector<uint32_t> held_inside;
  Costs costs;
};

// True if a boundary that is held includes the value.
inline bool passes(const toma_value& value, uint32_t boundary) { return value.stage <= boundary && boundary < value.last_stage; }
// True for actions that fill slots.
bool saves(uint32_t action);
std::vector<int64_t> sizes_of(const at::Tensor& tensor);
// Copies a tensor of the program, as an exempt allocation.
at::Tensor copy_of(const at::Tensor& tensor);
// Alias of a tensor that shares memory and version. If it wants a gradient, it appears to be computed by a graph.
at::Tensor alias_with_history(const at::Tensor& tensor, bool wants_gradient);

// Tape on which this thread records; null for none. It has no destructor, which would cost memory in each thread, and
// after which the thread could not record any more.
std::shared_ptr<Tape>*& recording() noexcept;
inline bool records() noexcept { return recording() != nullptr; }
// False inside a backward.
bool is_recorded();
// Calls back once the backward that this thread runs has added up all gradients. Only inside a backward.
void when_backward_ends(std::function<void()> callback);
// True if no other autograd engine has replaced ours.
bool engine_is_ours();

}  // namespace toma
