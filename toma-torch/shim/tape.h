// What one region records, and how its stages are run again.
//
// A stage is a run of operators. What they save for backward is a slot each, which holds the tensor only while
// the plan says so. A slot that lacks its tensor is filled by running the recorded operators of its stage again,
// never code of the user's. A boundary is what later stages use of the stages up to one; the next can be run again
// while it is held.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

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

// What a region has changed, as it was before.
struct Undo {
  struct Written {
    at::Tensor tensor, before;
    uint32_t version;
  };
  struct Gradient {
    at::Tensor variable, gradient;
  };

  void write(const at::Tensor& tensor);
  // An operator of an accelerator is about to draw from this.
  void draws(const Random& state);
  void all();

  std::vector<Written> written;
  std::vector<Gradient> gradients;
  // As they were at first. Those that it has drawn from are set back; of the others a seed is undone, and what other threads
  // drew stays drawn. On the CPU it draws from a generator of its own.
  const std::vector<Random> seeds = Random::of_all();
  std::vector<Random> drawn;
  // What operators of the CPU draw from.
  const at::Generator generator = own_generator();
};

// Numbers of one region, which outlive its tensors.
struct Notes {
  // A variable of the region, and the bytes of its gradient.
  struct Leaf {
    c10::weak_intrusive_ptr<c10::TensorImpl> variable;
    uint64_t bytes;
  };

  // Of the gradients that variables do not have now.
  uint64_t lacking_bytes() const;

  std::mutex lock;
  std::vector<uint64_t> prints;
  std::vector<toma_stage> stages;
  std::vector<Leaf> leaves;
  std::string kept;
  toma_region_figures figures{0, UINT64_MAX, 0, 0, 0, false, false};
  // Null where nothing is undone.
  std::unique_ptr<Undo> undo;
};

// A tensor in the arguments of an operator: a value of the region, or one from outside of it.
struct Ref {
  uint32_t argument;
  // In a list; none where the argument itself is the tensor.
  uint32_t element;
  uint32_t value;
  uint32_t outside;
  uint32_t version;
  // A running statistic that the operator writes.
  bool is_updated = false;
  // What the operator read, where later code may write to it without a new version: running statistics.
  at::Tensor copy = {};
};

struct Op {
  c10::OperatorHandle handle;
  const Operator* operation;
  // Without the tensors.
  torch::jit::Stack arguments;
  std::vector<Ref> refs = {};
  // For each tensor that it makes, in order: the value, or none where it is an argument.
  std::vector<uint32_t> makes = {};
  toma_modes modes = {};
  // Before it; null where it uses no random numbers.
  std::shared_ptr<const Random> random = nullptr;
  // After it: a repetition must come to the same.
  std::shared_ptr<const Random> random_after = nullptr;
  c10::Device device = c10::kCPU;
  // For the profiler: what it takes when it is repeated is the line's that recorded it.
  uint64_t position = 0;

  // Its results are held for good: they are made of no tensor, and the program may have filled them by other ways.
  bool is_kept() const { return refs.empty() && !operation->is_random; }
  std::string name() const { return c10::toString(handle.operator_name()); }
  bool updates_statistics() const {
    return std::any_of(refs.begin(), refs.end(), [](const Ref& ref) { return ref.is_updated; });
  }
};

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// A tensor that was made in the region.
struct Value {
  WeakTensor tensor;
  // Of no storage: null.
  WeakStorage storage;
  uint64_t storage_bytes, bytes;
  uint32_t stage, last_stage, last_op;
  bool wants_gradient;
  // While a boundary needs it.
  at::Tensor held = {};
  // What its operator made, where it is not made again; a repetition begins with a copy where it is written to.
  at::Tensor kept = {};
  uint32_t kept_version = 0;
  bool is_copied = false;
};

// A tensor from before the region, or from somewhere that it does not see.
struct Outside {
  WeakTensor tensor;
  // Shares memory and version, and leads into no graph.
  at::Tensor alias;
  bool wants_gradient, is_variable;
  uint64_t bytes;
};

// The stage that made a storage and the first value in it; none from elsewhere.
struct Made {
  WeakStorage storage;
  uint32_t stage;
  uint32_t value;
  // Tensors that the region does not see are in it.
  bool is_outside = false;
  // After the last operator of the region that wrote to it.
  uint32_t version = 0;
};

// A tensor that backward needs.
struct Slot {
  c10::VariableVersion counter;
  uint32_t version;
  uint32_t op;
  // From outside, so that it costs nothing to hold.
  bool is_outside;
  // Held from its first run on.
  bool is_saved;
  // The value of an earlier stage that it is; none for others.
  uint32_t value = none;
  // No node needs it any more.
  bool is_dead = false;
  // The value that it is and that its operator has not made; none for others.
  uint32_t argument = none;
  bool is_detached = false;
  at::Tensor tensor = {};
  // What it must look like when it is made again.
  std::vector<int64_t> sizes = {};
  c10::ScalarType kind = c10::ScalarType::Undefined;
  uint64_t hash = 0;
  WeakStorage storage = WeakStorage(c10::intrusive_ptr<c10::StorageImpl>());
  uint64_t bytes = 0;
};

struct Stage {
  uint32_t first_op, first_slot;
  uint32_t action;
  // What later stages need of those up to it is held.
  bool holds_output;
  // It cannot be run again.
  bool is_kept = false;
  // Its slots were filled by a run, and its backward has not begun.
  bool is_saved = false;
};

// The bytes of tensors that share memory, each once.
class Storages {
 public:
  // Whether it was new.
  bool add(const c10::StorageImpl* storage, uint64_t more);
  uint64_t bytes = 0;

 private:
  std::unordered_set<const c10::StorageImpl*> seen;
};

class Tape final {
 public:
  Tape(toma_choose choose, void* context, toma_region_options options);
  ~Tape();

  // Each operator of the region comes here.
  void call(const c10::OperatorHandle& handle, torch::jit::Stack& stack);
  // The next one begins a stage; `deeper` is added to how deep the program is in what has stages of its own.
  void cut(int32_t deeper);
  void end();
  // Whether a tensor leads into no graph from outside.
  bool is_inside(const at::Tensor& tensor);

  // The slot for what the operator in progress saves.
  uint32_t pack(const at::Tensor& tensor);
  at::Tensor unpack(uint32_t slot);
  void forget(uint32_t slot) noexcept;

  const std::shared_ptr<Notes> notes = std::make_shared<Notes>();

 private:
  friend class Replay;
  friend class Costs;

  // Recording: tape.cpp.
  uint32_t record(const c10::OperatorHandle& handle, const Operator& operation, const torch::jit::Stack& stack);
  void take_back(uint32_t first_slot);
  void draw(torch::jit::Stack& stack);
  uint64_t print_of(const Op& op) const;
  void follow_structure(const Op& op);
  void choose(const std::vector<uint64_t>& begun, bool is_whole, c10::Device device);
  void go_on(const toma_chosen& chosen);
  void hold_repeated();
  void differ();
  void end_sooner();
  void begin_stage(c10::Device device);
  bool is_repeated(uint32_t stage) const;
  void made(Op& op, const torch::jit::Stack& results);
  uint32_t value_for(const at::Tensor& tensor, const Op& op);

  // Of the values that count, in storages that were not counted before.
  template <class F>
  uint64_t bytes_where(Storages counted, const F& counts) const {
    const auto before = counted.bytes;
    for (const auto& value : values) {
      if (counts(value)) {
        counted.add(value.storage._unsafe_get_target(), value.storage_bytes);
      }
    }
    return counted.bytes - before;
  }

  // Stages without a plan: stages.cpp.
  uint64_t alive_bytes(Storages but) const;
  uint64_t dropped_bytes(uint32_t first, uint32_t end) const;
  bool is_thin();
  void drop_input();
  void unite();
  void unite(uint32_t second);
  bool is_idle(uint32_t boundary, const Storages& saved) const;
  uint64_t passing_bytes(uint32_t boundary, Storages but) const;
  uint64_t inner_bytes(uint32_t stage) const;
  Storages saved_storages() const;

  // What operators refer to: refer.cpp.
  uint32_t known_value(const at::Tensor& tensor);
  bool is_as_made(const Value& value, const at::Tensor& tensor) const;
  void refer(Op& op);
  bool may_change_unseen(const Ref& ref, const at::Tensor& tensor) const;
  uint32_t outside_for(const at::Tensor& tensor);
  void leave_graph(torch::jit::Stack& stack);
  void use(Value& value, const at::Tensor& tensor);
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
  void join(uint32_t first);
  void keep(uint32_t stage, const std::string& why);
  void hold_input(Slot& slot) const;

  // Running again: repeat.cpp.
  void reach(uint32_t stage);
  void leave_inside();
  void follow_plan(uint32_t stage);
  void act(toma_action action, bool holds_output);
  void run(uint32_t stage, bool saves, bool holds_output);
  void release(uint32_t boundary) noexcept;
  bool is_needed(const Value& value) const;
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
  std::vector<Stage> stages;
  ska::flat_hash_map<const c10::TensorImpl*, uint32_t> value_of, outside_of;
  ska::flat_hash_map<const c10::StorageImpl*, Made> storages;
  const toma_choose choose_plan;
  void* const context;
  const bool verify;
  const decltype(toma_region_options::told) told;
  void* const guest;
  // What was known when it began, as long as it is true.
  bool is_known = false;
  std::vector<uint64_t> known;
  std::vector<uint32_t> cuts;
  size_t next_cut = 0;
  std::vector<toma_action> plan;
  // How often the plan runs each stage.
  std::vector<uint32_t> runs;
  // The first action that is not done.
  size_t cursor = 0;
  int32_t layers = 0;
  // Bytes that lived before each of the last operators; what earlier stages have dropped.
  std::array<uint64_t, 12> lately_alive{};
  uint64_t dropped_before = 0;
  // Places at which few bytes live, and backward does not need them, since the stage began.
  uint32_t passed = 0;
  bool must_cut = false, has_ended = false;
  // The stage whose backward runs.
  uint32_t reached = none;
  // Boundaries that a backward inside the region holds beside the plan.
  std::vector<uint32_t> held_inside;
  Costs costs;
};

// Whether it is a run that fills slots.
bool saves(uint32_t action);
// Of a tensor of the program's, in memory that it has not asked for.
at::Tensor copy_of(const at::Tensor& tensor);
// Shares memory and version with a tensor, and seems to be computed by some graph where it wants a gradient.
at::Tensor alias_with_history(const at::Tensor& tensor, bool wants_gradient);

// The tape that this thread records on; null for none. It has no destructor, which would cost each thread memory, and
// after which the thread could record no more.
std::shared_ptr<Tape>*& recording() noexcept;
inline bool records() noexcept { return recording() != nullptr; }
// Not what a backward does.
bool is_recorded();
// No other engine is in libtorch's place.
bool engine_is_ours();

}  // namespace toma
