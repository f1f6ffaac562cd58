// Operators and memory of a program, as libtorch's observers report them: to recorders of a thread with all arguments,
// and to the listener of all threads as they begin and end.
//
// # Why
//
// Dry and live steps have the same recorder, and its leaves come from libtorch's own observers. Only the source of the
// results differs, so the two agree to the byte.
//
// Memory of the CPU is recorded by the counting allocator. libtorch's reports to profilers lack the end of blocks from
// before, and libtorch prints a warning for each.

#include "observe.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

#include "operators.h"
#include "swap.h"

namespace toma {
namespace {

// Cached properties of an operator, by the address of its name in the dispatcher, which does not change.
struct Reported {
  const char* key = nullptr;
  // Number that the listener gave its name; none before the first call.
  uint32_t name = none;
  // Composites only call other operators, which are the leaves. Operators of other libraries always count as leaves.
  bool is_leaf = false;
};

Reported& reported(const at::RecordFunction& function) {
  static thread_local std::array<Reported, 512> cache;
  const auto* key = function.name();
  auto& entry = cache[reinterpret_cast<uintptr_t>(key) / 16 % cache.size()];
  if (entry.key != key) {
    const auto op = handle_of(function);
    // The address of a name that is no operator's may get another meaning.
    entry = {op ? key : nullptr, none, op && !operator_of(*op).is_composite};
  }
  return entry;
}

// The call of a leaf operator that this thread is in; operators that its kernels call are no leaves.
thread_local const at::RecordFunction* inside = nullptr;

// True if a leaf begins. Recorders and the listener both ask, in any order.
bool is_leaf(const at::RecordFunction& function) {
  inside = inside == nullptr && reported(function).is_leaf ? &function : inside;
  return inside == &function;
}

// Also called if an observer has failed to begin.
void leave(const at::RecordFunction& function) { inside = inside == &function ? nullptr : inside; }

toma_event of_memory(toma_event_kind kind, const void* data, uint64_t bytes, c10::Device device) {
  const auto index = static_cast<uint8_t>(std::max<int>(device.index(), 0));
  return {kind, 0, reinterpret_cast<uintptr_t>(data), bytes, uint64_t{static_cast<uint8_t>(device.type())} << 32 | index};
}

void write_use(Recorder& recorder, toma_event_kind kind, const at::Tensor& tensor) {
  if (tensor.layout() == c10::kStrided && tensor.has_storage()) {
    auto& storage = *tensor.storage().unsafeGetStorageImpl();
    // An evicted tensor has no memory, so the address of its storage identifies it.
    const auto evicted = is_evicted(storage);
    const auto& data = storage._mutable_data_ptr_no_checks();
    const auto is_taken = kind == TOMA_READS || kind == TOMA_WRITES;
    const auto of_host = !evicted && recorder.dry != nullptr && is_taken ? written_by_host(storage) : std::nullopt;
    const int64_t flags = int64_t{tensor.requires_grad()} | int64_t{of_host.has_value()} << 1;
    // Views of one storage begin at different places.
    const auto identity = mixed(reinterpret_cast<uintptr_t>(&storage), static_cast<uint64_t>(tensor.storage_offset()));
    std::vector<int64_t> values{flags, static_cast<int64_t>(identity), static_cast<int64_t>(of_host.value_or(0))};
    values.insert(values.end(), tensor.sizes().begin(), tensor.sizes().end());
    const auto* address = evicted ? static_cast<const void*>(&storage) : data.get();
    recorder.write(of_memory(kind, address, evicted ? 0 : bytes_of(storage), tensor.device()), nullptr, values);
  }
}

// Sizes and flags are attributes. A number scales or shifts values, so the judgment of a loss needs it exactly.
void write_number(Recorder& recorder, const c10::Argument& described, const c10::IValue& value) {
  const auto is_number = value.isDouble() || (value.isInt() && described.type()->kind() == c10::TypeKind::NumberType);
  if (is_number) {
    const auto number = value.toScalar().toDouble();
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    recorder.write({TOMA_NUMBER, 0, 0, bits}, described.name().c_str());
  }
}

// Marks pointwise operators in a dry run: each element of their results depends on one element of each argument.
void write_tags(Recorder& recorder, const c10::OperatorHandle& op) {
  if (recorder.dry != nullptr && op.hasTag(at::Tag::pointwise)) {
    recorder.write({TOMA_ATTRIBUTE}, "pointwise", int64_t{1});
  }
}

template <class V>
void write_uses(
    Recorder& recorder, const std::vector<c10::Argument>& described, const V& values, toma_event_kind plain, toma_event_kind aliasing) {
  for (size_t at = 0; at < std::min(described.size(), values.size()); ++at) {
    const auto* alias = described[at].alias_info();
    const auto kind = alias == nullptr ? plain : alias->isWrite() ? TOMA_WRITES : aliasing;
    each_tensor(values[at], [&](const at::Tensor& tensor) { write_use(recorder, kind, tensor); });
    write_number(recorder, described[at], values[at]);
    if (values[at].isInt() || values[at].isBool()) {
      recorder.write({TOMA_ATTRIBUTE}, described[at].name().c_str(), values[at].toScalar().toLong());
    } else if (values[at].isIntList()) {
      recorder.write({TOMA_ATTRIBUTE}, described[at].name().c_str(), values[at].toIntVector());
    }
  }
}

// Context of a leaf or of a Node of backward that recorders have seen begin.
struct Recorded final : at::ObserverContext {
  explicit Recorded(const c10::FunctionSchema* leaf) : leaf(leaf) {}
  // Null for a Node.
  const c10::FunctionSchema* leaf;
  // Time after all arguments were recorded.
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

std::unique_ptr<at::ObserverContext> record_begin(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    State::each([&](Recorder& recorder) { recorder.write({TOMA_NODE_BEGINS}, function.name()); });
    return std::make_unique<Recorded>(nullptr);
  }
  const auto op = is_leaf(function) ? handle_of(function) : std::nullopt;
  if (!op) {
    return nullptr;
  }
  State::each([&](Recorder& recorder) {
    recorder.write({TOMA_OPERATOR_BEGINS}, c10::toString(op->operator_name()).c_str());
    write_tags(recorder, *op);
    write_uses(recorder, op->schema().arguments(), function.inputs(), TOMA_READS, TOMA_READS);
  });
  return std::make_unique<Recorded>(&op->schema());
}

void record_end(const at::RecordFunction& function, at::ObserverContext* context) {
  leave(function);
  const auto* begun = static_cast<const Recorded*>(context);
  if (begun == nullptr) {
    return;
  }
  const auto taken = std::chrono::steady_clock::now() - begun->began;
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count();
  State::each([&](Recorder& recorder) {
    if (begun->leaf != nullptr) {
      write_uses(recorder, begun->leaf->returns(), function.outputs(), TOMA_MAKES, TOMA_VIEWS);
    }
    recorder.write({TOMA_ENDS, 0, 0, static_cast<uint64_t>(nanoseconds)});
  });
}

// Listener for every operator, which lives forever; null for none.
std::atomic<const toma_listener*> listening{nullptr};
at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;

// Strings of node names are new each time, so the cache compares the text.
uint32_t name_of_node(const char* name, const toma_listener& listener) {
  struct Named {
    std::string text;
    uint32_t number = 0;
  };
  static thread_local std::array<Named, 256> cache;
  auto& entry = cache[std::hash<std::string_view>()(name) % cache.size()];
  if (entry.text != name) {
    entry = {name, listener.named(name)};
  }
  return entry.number;
}

// Marks for the end that the begin was reported.
struct Begun final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> report_begin(const at::RecordFunction& function) {
  const auto& listener = *listening.load(std::memory_order_acquire);
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    listener.node_begins(name_of_node(function.name(), listener), node_of(function.forwardThreadId(), function.seqNr()));
  } else if (is_leaf(function)) {
    auto& name = reported(function).name;
    name = name == none ? listener.named(function.name()) : name;
    const auto sequence = function.seqNr();
    listener.operator_begins(name, sequence < 0 ? 0 : node_of(at::RecordFunction::currentThreadId(), sequence));
  } else {
    return nullptr;
  }
  return std::make_unique<Begun>();
}

void report_end(const at::RecordFunction& function, at::ObserverContext* context) {
  leave(function);
  if (context != nullptr) {
    listening.load(std::memory_order_acquire)->ends();
  }
}

at::RecordFunctionCallback of_all_scopes(at::RecordFunctionCallback observer) {
  return observer.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
}

}  // namespace

void Recorder::write(toma_event event, const char* name, c10::ArrayRef<int64_t> values) noexcept {
  try {
    const std::lock_guard<std::mutex> held(lock);
    event.thread = static_cast<uint32_t>(at::RecordFunction::currentThreadId());
    if (name != nullptr) {
      event.subject = names.size();
      names.append(name, std::strlen(name) + 1);
    }
    event.from = numbers.size();
    event.count = values.size();
    numbers.insert(numbers.end(), values.begin(), values.end());
    events.push_back(event);
  } catch (const std::bad_alloc&) {
    torn = true;
  }
}

at::RecordFunctionCallback observer_of_operators() {
  return of_all_scopes(at::RecordFunctionCallback(record_begin, record_end).needsInputs(true).needsOutputs(true));
}

void report_block(void* data, int64_t bytes, c10::Device device) noexcept {
  if (auto* unobserved = Unobserved::of_thread) {
    unobserved->allocated += bytes;
    unobserved->peak = std::max(unobserved->peak, unobserved->allocated);
  } else if (bytes != 0) {
    const auto event = of_memory(bytes < 0 ? TOMA_DIED : TOMA_BORN, data, std::abs(bytes), device);
    State::each([&](Recorder& recorder) { recorder.write(event); });
  }
}

void report_cpu_block(void* data, int64_t bytes) noexcept { report_block(data, bytes, c10::kCPU); }

const char* leaf_name() noexcept { return inside == nullptr ? "" : inside->name(); }

uint64_t node_of(uint64_t thread, int64_t sequence) noexcept {
  constexpr int bits = 40;
  return thread << bits | (static_cast<uint64_t>(sequence + 1) & ((uint64_t{1} << bits) - 1));
}

}  // namespace toma

void toma_profile_operators(const toma_listener* listener) noexcept {
  using namespace toma;
  if (const auto before = std::exchange(callback, at::INVALID_CALLBACK_HANDLE); before != at::INVALID_CALLBACK_HANDLE) {
    at::removeCallback(before);
  }
  if (listener != nullptr) {
    listening.store(listener, std::memory_order_release);
    callback = at::addGlobalCallback(of_all_scopes(at::RecordFunctionCallback(report_begin, report_end)));
  }
}

int32_t toma_record_begin(toma_recorder** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    auto recorder = std::make_unique<toma_recorder>();
    toma::State::enter(*recorder);
    *out = recorder.release();
  });
}

void toma_record_read(toma_recorder* of, toma_recording* out) noexcept {
  *out = {of->events.data(), of->events.size(), of->numbers.data(), of->numbers.size(), of->names.data(), of->names.size(), of->torn};
}

void toma_record_mark(toma_recorder* recorder, const char* name) noexcept {
  recorder->write({name == nullptr ? TOMA_ENDS : TOMA_MARK_BEGINS}, name);
}

void toma_record_line(toma_recorder* recorder, uint64_t number) noexcept { recorder->write({TOMA_LINE, 0, 0, number}); }

void toma_record_end(toma_recorder* recorder) noexcept {
  const std::unique_ptr<toma_recorder> ended(recorder);
  toma::State::leave(*ended);
}
