// Leaf operators and memory of a step, as libtorch's observers report them.
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
#include <chrono>
#include <cstring>

#include "swap.h"

namespace toma {
namespace {

// Leaf operator that this thread is in; operators that its kernels call are no leaves.
thread_local const c10::FunctionSchema* inside = nullptr;

toma_event of_memory(toma_event_kind kind, const void* data, uint64_t bytes, c10::Device device) {
  const auto index = static_cast<uint8_t>(std::max<int>(device.index(), 0));
  return {kind, 0, reinterpret_cast<uintptr_t>(data), bytes, uint64_t{static_cast<uint8_t>(device.type())} << 32 | index};
}

// Composites only call other operators, which are the leaves. Operators of other libraries always count as leaves.
std::optional<c10::OperatorHandle> leaf_of(const at::RecordFunction& function) {
  const auto name = inside != nullptr ? std::nullopt : function.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  const auto is_composite = op && op->schema().getNamespace() == "aten" &&
      op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  return is_composite ? std::nullopt : op;
}

void write_use(Recorder& recorder, toma_event_kind kind, const at::Tensor& tensor) {
  if (tensor.layout() == c10::kStrided && tensor.has_storage()) {
    auto& storage = *tensor.storage().unsafeGetStorageImpl();
    // An evicted tensor has no memory, so the address of its storage identifies it.
    const auto away = is_away(storage);
    const auto& data = storage._mutable_data_ptr_no_checks();
    const auto is_of_host = !away && recorder.dry != nullptr && kind == TOMA_READS && is_written_by_host(data);
    const int64_t flags = int64_t{tensor.requires_grad()} | int64_t{is_of_host} << 1;
    std::vector<int64_t> values{flags};
    values.insert(values.end(), tensor.sizes().begin(), tensor.sizes().end());
    const auto* address = away ? static_cast<const void*>(&storage) : data.get();
    recorder.write(of_memory(kind, address, away ? 0 : bytes_of(storage), tensor.device()), nullptr, values);
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

// For most operators, a tag says that each element of a result depends on one element of each argument.
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

// Context of a leaf or of a Node of backward.
struct Begun final : at::ObserverContext {
  // Time after all arguments were recorded.
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
};

std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    State::each([&](Recorder& recorder) { recorder.write({TOMA_NODE_BEGINS}, function.name()); });
  } else if (const auto op = leaf_of(function)) {
    inside = &op->schema();
    State::each([&](Recorder& recorder) {
      recorder.write({TOMA_OPERATOR_BEGINS}, c10::toString(op->operator_name()).c_str());
      write_tags(recorder, *op);
      write_uses(recorder, inside->arguments(), function.inputs(), TOMA_READS, TOMA_READS);
    });
  } else {
    return nullptr;
  }
  return std::make_unique<Begun>();
}

void ended(const at::RecordFunction& function, at::ObserverContext* begun) {
  if (begun == nullptr) {
    return;
  }
  const auto taken = std::chrono::steady_clock::now() - static_cast<Begun*>(begun)->at;
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count();
  const auto* leaf = function.scope() == at::RecordScope::FUNCTION ? std::exchange(inside, nullptr) : nullptr;
  State::each([&](Recorder& recorder) {
    if (leaf != nullptr) {
      write_uses(recorder, leaf->returns(), function.outputs(), TOMA_MAKES, TOMA_VIEWS);
    }
    recorder.write({TOMA_ENDS, 0, 0, static_cast<uint64_t>(nanoseconds)});
  });
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
  auto observer = at::RecordFunctionCallback(started, ended).needsInputs(true).needsOutputs(true);
  return observer.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
}

void tell(void* data, int64_t bytes, c10::Device device) noexcept {
  if (auto* unobserved = Unobserved::of_thread) {
    unobserved->allocated += bytes;
    unobserved->peak = std::max(unobserved->peak, unobserved->allocated);
  } else if (bytes != 0) {
    const auto event = of_memory(bytes < 0 ? TOMA_DIED : TOMA_BORN, data, std::abs(bytes), device);
    State::each([&](Recorder& recorder) { recorder.write(event); });
  }
}

void tell_of_block(void* data, int64_t bytes) noexcept { tell(data, bytes, c10::kCPU); }

const char* leaf_name() noexcept { return inside == nullptr ? "" : inside->name().c_str(); }

}  // namespace toma

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
