// Operators of threads that have entered: their arguments are fetched, stay while they run, and are marked as written.

#include "offload.h"

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#ifndef _WIN32
#include <pthread.h>
#endif

#include <atomic>
#include <mutex>

#include "dry.h"
#include "gather.h"
#include "guard.h"
#include "meter.h"
#include "swap.h"
#include "tape.h"

namespace toma {
namespace {

// Callbacks of the managers, which live forever.
std::atomic<const toma_offloading*> callbacks{nullptr};
// Smallest storage that any manager moves.
std::atomic<uint64_t> least_bytes{UINT64_MAX};
std::atomic<int32_t> threads{0};
// True in a fork of the process that made a manager.
std::atomic<bool> is_forked{false};

template <class F>
void each_storage_in(const at::Tensor& tensor, const F& body) {
  if (tensor.has_storage()) {
    body(*tensor.storage().unsafeGetStorageImpl(), tensor.device());
  } else {
    each_part_of(tensor, [&](const at::Tensor& part) { each_storage_in(part, body); });
  }
}

template <class F>
void each_storage_in(const c10::IValue& value, const F& body) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      each_storage_in(value.toTensor(), body);
    }
  } else if (value.isStorage()) {
    const auto storage = value.toStorage();
    body(*storage.unsafeGetStorageImpl(), storage.device());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      each_storage_in(element, body);
    }
  }
}

struct Uses {
  c10::SmallVector<toma_use, 8> all;
  // Smaller storages are left out.
  uint64_t least = least_bytes.load(std::memory_order_relaxed);

  void add(const c10::IValue& value, bool writes) {
    each_storage_in(value, [&](c10::StorageImpl& storage, c10::Device device) {
      const auto known = std::find_if(all.begin(), all.end(), [&](const toma_use& use) { return use.storage == &storage; });
      if (known != all.end()) {
        known->writes |= writes;
      } else if (const auto use = use_of(storage, device, writes); use.bytes > 0 && use.bytes >= least) {
        all.push_back(use);
      }
    });
  }

  // Marks the storage of a table of which only rows are read.
  void gather(const at::Tensor& table) {
    for (auto& use : all) {
      use.is_gathered |= use.storage == storage_of(table);
    }
  }
};

// True if the operator writes the argument. Two operators have writes that their schemas do not list.
bool is_written(const Operator& operation, size_t argument) {
  if (operation.is_written[argument] || argument == operation.mean || argument == operation.variance) {
    return true;
  }
  // The last argument, a workspace.
  return operation.named.writes_workspace && argument + 1 == operation.is_written.size();
}

Uses uses_of(const Operator& operation, const torch::jit::Stack& stack) {
  Uses uses;
  const auto count = operation.is_written.size();
  for (size_t at = 0; at < count; ++at) {
    uses.add(torch::jit::peek(stack, at, count), is_written(operation, at));
  }
  return uses;
}

Uses made_by(const c10::OperatorHandle& op, const torch::jit::Stack& stack, const Uses& found) {
  Uses made;
  const auto count = op.schema().returns().size();
  for (size_t at = 0; at < count; ++at) {
    made.add(torch::jit::peek(stack, at, count), false);
  }
  const auto is_found = [&](const toma_use& use) {
    return std::any_of(found.all.begin(), found.all.end(), [&](const toma_use& one) { return one.storage == use.storage; });
  };
  made.all.erase(std::remove_if(made.all.begin(), made.all.end(), is_found), made.all.end());
  return made;
}

// Reads the sizes again, because an operator may resize its arguments.
void refresh(Uses& uses) {
  for (auto& use : uses.all) {
    use.bytes = bytes_of(*static_cast<const c10::StorageImpl*>(use.storage));
  }
}

// True if this thread reports operators of dry runs.
bool& predicts() noexcept {
  static thread_local bool predicts = false;
  return predicts;
}

// One operator, from when its arguments are fetched until they may be evicted.
class Running {
 public:
  Running(const c10::OperatorHandle& op, const Operator& operation, Uses found)
      : op(op), operation(operation), uses(std::move(found)) {
    // Keeps the storages alive until the operator ends, even if it drops its arguments.
    for (const auto& use : uses.all) {
      kept.push_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(static_cast<c10::StorageImpl*>(const_cast<void*>(use.storage))));
    }
    toma_error error{};
    const auto code = callbacks.load()->begins(op.schema().name().c_str(), uses.all.data(), uses.all.size(), &error);
    if (code != TOMA_OK) {
      throw_error(code, error);
    }
    Meter::take_of_cpu();
    start = counted.now;
    if (predicts()) {
      counted.peak = start;
    }
  }

  // The gathered storage, if it stayed evicted.
  const toma_use* gathered() const {
    const auto found = std::find_if(uses.all.begin(), uses.all.end(), [](const toma_use& use) { return use.host_copy != nullptr; });
    return found == uses.all.end() ? nullptr : found;
  }

  void ends(const torch::jit::Stack& stack) {
    auto made = made_by(op, stack, uses);
    const auto is_factory = !operation.takes_tensors && operation.makes_tensors;
    end({nullptr, nullptr, 0, made.all.data(), made.all.size(), 0, operation.named.hands_back, is_factory, false});
  }

  ~Running() {
    if (!has_ended) {
      end({nullptr, nullptr, 0, nullptr, 0, 0, false, false, true});
    }
  }

  [[noreturn]] void lacks(const c10::OutOfMemoryError& error) const {
    uint64_t bytes = 0;
    for (const auto& use : uses.all) {
      bytes += use.host_copy == nullptr ? use.bytes : 0;
    }
    const auto why = c10::str(error.what_without_backtrace(), ", by ", op.schema().name(), " with arguments of ", bytes, " bytes");
    throw c10::OutOfMemoryError(why, nullptr);
  }

 private:
  void end(toma_ended ended) {
    has_ended = true;
    refresh(uses);
    ended.name = op.schema().name().c_str();
    ended.uses = uses.all.data();
    ended.use_count = uses.all.size();
    ended.inside_bytes = static_cast<uint64_t>(std::max<int64_t>(counted.peak - start, 0));
    callbacks.load()->ends(&ended);
  }

  const c10::OperatorHandle& op;
  const Operator& operation;
  Uses uses;
  c10::SmallVector<c10::intrusive_ptr<c10::StorageImpl>, 8> kept;
  Level& counted = predicts() ? dry_level() : level();
  int64_t start = 0;
  bool has_ended = false;
};

// True if the operator itself must be reported. Views are not, because they read no memory, and neither are composites,
// because the operators that they call are; except one that may return its argument, whose memory the program then
// reads.
bool looks_at_memory(const Operator& operation) {
  return operation.named.hands_back || !(operation.is_composite || operation.is_view || operation.named.detaches);
}

// Storages that operators of a thread that has not entered use, as indices into `in_use`: those of the innermost
// operator come last, followed by their count. Null before the first operator, and when the thread ends. Every operator
// reads this, so it has no guard of an initialization.
thread_local std::vector<uint32_t>* indices = nullptr;

// Null while the thread ends, because its own variables may be gone.
[[gnu::noinline]] std::vector<uint32_t>* first_indices() noexcept {
  static thread_local bool is_over = false;
  struct Own {
    std::vector<uint32_t> all;
    ~Own() {
      is_over = true;
      indices = nullptr;
    }
  };
  static thread_local Own own;
  return indices = is_over ? nullptr : &own.all;
}

// Storages of a running operator. Managers pin those that they know.
struct PinnedUses final : at::ObserverContext {
  Uses uses;
};

// Pins the storages of an operator on a thread that has not entered.
[[gnu::noinline]] std::unique_ptr<PinnedUses> held_by(const at::RecordFunction& function) {
  // An unknown operator is assumed to write its arguments.
  const auto op = handle_of(function);
  const auto* operation = op ? &operator_of(*op) : nullptr;
  if (operation != nullptr && !looks_at_memory(*operation)) {
    return nullptr;
  }
  auto held = std::make_unique<PinnedUses>();
  // A handle may move storages that are too small for threads that have entered.
  held->uses.least = 0;
  const auto inputs = function.inputs();
  for (size_t at = 0; at < inputs.size(); ++at) {
    const auto is_known = operation != nullptr && at < operation->is_written.size();
    held->uses.add(inputs[at], !is_known || is_written(*operation, at));
  }
  callbacks.load()->held(held->uses.all.data(), held->uses.all.size(), true);
  return held;
}

// A storage that no manager knows costs a counter and no lock. One that becomes known meanwhile is found in use: its
// use is counted before the lookup here, and it is known before the manager looks up its use.
std::unique_ptr<at::ObserverContext> others_begin(const at::RecordFunction& function) {
  auto* use = indices != nullptr ? indices : first_indices();
  if (use == nullptr) {
    return nullptr;
  }
  const auto before = use->size();
  bool is_known = false;
  const auto begins = [&](const c10::StorageImpl& storage) {
    const auto index = Counters::index_of(&storage);
    use->push_back(index);
    in_use.add(index);
    is_known |= known.has(index);
  };
  if (!moves_storages() && !is_offloading()) {
    for (const auto& input : function.inputs()) {
      // Most arguments are tensors, and an undefined tensor has no storage.
      const auto* storage = input.isTensor() ? input.toTensor().unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() : nullptr;
      if (storage != nullptr) {
        begins(*storage);
      } else if (!input.isDouble() && !input.isInt() && !input.isBool()) {
        each_storage_in(input, [&](const c10::StorageImpl& storage, c10::Device) { begins(storage); });
      }
    }
  }
  use->push_back(static_cast<uint32_t>(use->size() - before));
  return C10_UNLIKELY(is_known) ? held_by(function) : nullptr;
}

void others_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (C10_UNLIKELY(context != nullptr)) {
    auto& uses = static_cast<PinnedUses*>(context)->uses.all;
    callbacks.load()->held(uses.data(), uses.size(), false);
  }
  if (indices == nullptr) {
    return;
  }
  auto count = indices->back();
  for (indices->pop_back(); count > 0; --count, indices->pop_back()) {
    in_use.remove(indices->back());
  }
}

// Runs from the first manager on, so that uses by other threads are counted before anything is evicted.
void observe() {
#ifndef _WIN32
  pthread_atfork(nullptr, nullptr, [] { is_forked = true; });
#endif
  auto callback = at::RecordFunctionCallback(&others_begin, &others_end).needsInputs(true);
  at::addGlobalCallback(callback.scopes({at::RecordScope::FUNCTION}));
}

}  // namespace

int32_t& entered() noexcept {
  static thread_local int32_t entered = 0;
  return entered;
}

bool& moves_storages() noexcept {
  static thread_local bool moves = false;
  return moves;
}

bool is_offloading() noexcept {
  // The thread of a backward inherits the key and nothing else.
  return threads.load(std::memory_order_relaxed) > 0 && !moves_storages() &&
      (entered() > 0 || (!records() && Drawing::is_key_included()));
}

bool is_relieved(c10::Device device, uint64_t lacking_bytes) {
  const auto* offloading = callbacks.load(std::memory_order_relaxed);
  return offloading != nullptr && !moves_storages() && offloading->lacks(numbers_of(device), lacking_bytes);
}

uint64_t report_dropped(void* stand_in) noexcept { return callbacks.load()->dropped(stand_in); }

void run_offloaded(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& operation = operator_of(op);
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, mode_key);
  // A dry run reads no memory. Operators that this one calls get the generator.
  const auto draws_below = Drawing::current() != nullptr && operation.is_random && !op.schema().argumentIndexWithName("generator");
  if ((keys.has(c10::DispatchKey::Fake) && !predicts()) || (operation.is_composite && !operation.named.hands_back) || draws_below) {
    return op.redispatchBoxed(below, stack);
  }
  if (operation.is_view || operation.named.detaches) {
    const c10::impl::ExcludeDispatchKeyGuard not_here(mode_key);
    return op.redispatchBoxed(below, stack);
  }
  if (operation.is_composite) {
    // The program may read the memory of the returned tensor.
    op.redispatchBoxed(below, stack);
    return Running(op, operation, made_by(op, *stack, {})).ends(*stack);
  }
  auto uses = uses_of(operation, *stack);
  const auto gather = Gather::of(operation, *stack);
  if (gather) {
    uses.gather(gather->table);
  }
  Running running(op, operation, std::move(uses));
  try {
    const c10::impl::ExcludeDispatchKeyGuard not_here(mode_key);
    if (const auto* gathered = running.gathered()) {
      gather->run(op, *stack, *callbacks.load(), *gathered);
    } else {
      op.redispatchBoxed(below, stack);
    }
  } catch (const c10::OutOfMemoryError& error) {
    running.lacks(error);
  }
  running.ends(*stack);
}

BelowTape::BelowTape() : excludes(!is_offloading() && !c10::impl::tls_is_dispatch_key_excluded(mode_key)) {
  ++depth();
  if (excludes) {
    c10::impl::tls_set_dispatch_key_excluded(mode_key, true);
  }
}

BelowTape::~BelowTape() {
  --depth();
  if (excludes) {
    c10::impl::tls_set_dispatch_key_excluded(mode_key, false);
  }
}

int32_t& BelowTape::depth() noexcept {
  static thread_local int32_t depth = 0;
  return depth;
}

}  // namespace toma

void toma_offload_install(const toma_offloading* offloading) noexcept {
  toma::callbacks.store(offloading);
  static std::once_flag once;
  std::call_once(once, toma::observe);
}

int32_t toma_offload_register(toma_error* error) noexcept {
  return toma::guarded(error, [] { toma::register_mode_key(); });
}

void toma_offload_moves(uint64_t least_bytes) noexcept {
  auto before = toma::least_bytes.load();
  while (least_bytes < before && !toma::least_bytes.compare_exchange_weak(before, least_bytes)) {
  }
}

void toma_offload_enter(uint64_t least_bytes) noexcept {
  toma_offload_moves(least_bytes);
  if (toma::entered()++ == 0) {
    ++toma::threads;
    c10::impl::tls_set_dispatch_key_included(toma::mode_key, true);
  }
}

bool toma_offload_leave() noexcept {
  if (--toma::entered() > 0) {
    return false;
  }
  c10::impl::tls_set_dispatch_key_included(toma::mode_key, toma::records());
  return --toma::threads == 0;
}

bool toma_offload_is_forked() noexcept { return toma::is_forked.load(std::memory_order_relaxed); }

bool toma_offload_is_watched() noexcept { return toma::threads.load() > 0; }

void toma_offload_predict(bool predicts) noexcept { toma::predicts() = predicts; }

bool toma_offload_aside(bool aside) noexcept { return std::exchange(toma::moves_storages(), aside); }
