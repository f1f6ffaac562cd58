// The leaves and the memory of a step, as libtorch's observers tell of them.

#include "observe.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "guard.h"

namespace toma {
namespace {

using Values = c10::ArrayRef<int64_t>;

thread_local Unobserved* unobserved = nullptr;
// The leaf that this thread is in; what its kernels call is no leaf, and so many of these have begun.
thread_local const c10::FunctionSchema* inside = nullptr;
thread_local uint32_t beneath = 0;

// The system's numbers of threads come again.
uint32_t thread_number() {
  static std::atomic<uint32_t> threads{0};
  thread_local const uint32_t number = threads++;
  return number;
}

template <class F>
void each_recorder(F body) {
  const auto* state = unobserved == nullptr ? State::current() : nullptr;
  if (state != nullptr) {
    state->each<Recorder>(body);
  }
}

// Composites only call others; those are the leaves. Kernels of other libraries are taken as they are.
std::optional<c10::OperatorHandle> leaf_of(const at::RecordFunction& function) {
  const auto name = unobserved != nullptr ? std::nullopt : function.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  const auto is_composite = op && op->schema().getNamespace() == "aten" &&
      op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  return is_composite ? std::nullopt : op;
}

void write_use(Recorder& recorder, toma_event_kind kind, const at::Tensor& tensor) {
  if (tensor.layout() == c10::kStrided && tensor.has_storage()) {
    std::vector<int64_t> values{tensor.requires_grad()};
    values.insert(values.end(), tensor.sizes().begin(), tensor.sizes().end());
    auto& storage = *tensor.storage().unsafeGetStorageImpl();
    recorder.write(kind, storage._mutable_data_ptr_no_checks().get(), storage.nbytes(), tensor.device(), values);
  }
}

template <class V>
void write_uses(
    Recorder& recorder, const std::vector<c10::Argument>& described, const V& values, toma_event_kind plain,
    toma_event_kind aliasing) {
  for (size_t at = 0; at < std::min(described.size(), values.size()); ++at) {
    const auto* alias = described[at].alias_info();
    const auto kind = alias == nullptr ? plain : alias->isWrite() ? TOMA_WRITES : aliasing;
    each_tensor(values[at], [&](const at::Tensor& tensor) { write_use(recorder, kind, tensor); });
    if (values[at].isInt() || values[at].isBool()) {
      const auto value = values[at].isInt() ? values[at].toInt() : int64_t{values[at].toBool()};
      recorder.write({TOMA_ATTRIBUTE}, described[at].name().c_str(), value);
    } else if (values[at].isIntList()) {
      recorder.write({TOMA_ATTRIBUTE}, described[at].name().c_str(), values[at].toIntVector());
    }
  }
}

std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    each_recorder([&](Recorder& recorder) { recorder.write({TOMA_NODE_BEGINS}, function.name()); });
    return nullptr;
  }
  beneath += inside != nullptr ? 1 : 0;
  const auto op = inside != nullptr ? std::nullopt : leaf_of(function);
  if (!op) {
    return nullptr;
  }
  inside = &op->schema();
  each_recorder([&](Recorder& recorder) {
    recorder.write({TOMA_OPERATOR_BEGINS}, c10::toString(op->operator_name()).c_str());
    write_uses(recorder, inside->arguments(), function.inputs(), TOMA_READS, TOMA_READS);
  });
  return nullptr;
}

void ended(const at::RecordFunction& function, at::ObserverContext*) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    each_recorder([](Recorder& recorder) { recorder.write({TOMA_ENDS}, nullptr); });
  } else if (beneath > 0) {
    --beneath;
  } else if (const auto* leaf = std::exchange(inside, nullptr)) {
    each_recorder([&](Recorder& recorder) {
      write_uses(recorder, leaf->returns(), function.outputs(), TOMA_MAKES, TOMA_VIEWS);
      recorder.write({TOMA_ENDS}, nullptr);
    });
  }
}

void tell(void* data, int64_t bytes, c10::Device device) noexcept {
  if (unobserved != nullptr) {
    unobserved->allocated += bytes;
    unobserved->peak = std::max(unobserved->peak, unobserved->allocated);
  }
  if (bytes != 0) {
    const auto kind = bytes < 0 ? TOMA_DIED : TOMA_BORN;
    each_recorder([&](Recorder& recorder) { recorder.write(kind, data, static_cast<uint64_t>(std::abs(bytes)), device); });
  }
}

// Of accelerators. What libtorch tells of the CPU lacks the end of all that lived before, and it warns of each.
struct Reporter final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void* data, int64_t bytes, size_t, size_t, c10::Device device) override { tell(data, bytes, device); }
  bool memoryProfilingEnabled() const override { return false; }
};

// Registered with libtorch once for each thread, however many recorders it has.
thread_local uint64_t recorders = 0;
thread_local at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;

constexpr auto profiler = c10::DebugInfoKind::PROFILER_STATE;

void observe() {
  if (recorders == 0) {
    // libtorch's profiler takes whatever is in its slot for its own.
    if (c10::ThreadLocalDebugInfo::get(profiler) != nullptr) {
      throw c10::NotImplementedError("memory of this thread is being profiled by libtorch", nullptr);
    }
    auto observer = at::RecordFunctionCallback(started, ended).needsInputs(true).needsOutputs(true);
    observer.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
    callback = at::addThreadLocalCallback(observer);
    c10::ThreadLocalDebugInfo::_push(profiler, std::make_shared<Reporter>());
  }
  ++recorders;
}

void observe_no_more() noexcept {
  if (--recorders > 0) {
    return;
  }
  at::removeCallback(callback);
  try {
    c10::ThreadLocalDebugInfo::_pop(profiler);
  } catch (const std::exception&) {
    // Other code has pushed above it: it stays, and tells of nothing.
  }
}

}  // namespace

void Recorder::write(toma_event event, const char* name, Values values) noexcept {
  try {
    const std::lock_guard<std::mutex> held(lock);
    event.thread = thread_number();
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

void Recorder::write(
    toma_event_kind kind, const void* data, uint64_t bytes, c10::Device device, Values values) noexcept {
  toma_event event{kind};
  event.subject = reinterpret_cast<uintptr_t>(data);
  event.bytes = bytes;
  event.device = uint64_t{static_cast<uint8_t>(device.type())} << 32 | static_cast<uint8_t>(std::max<int>(device.index(), 0));
  write(event, nullptr, values);
}

Unobserved::Unobserved() noexcept : outer(unobserved) { unobserved = this; }
Unobserved::~Unobserved() { unobserved = outer; }

void tell_of_block(void* data, int64_t bytes) noexcept {
  if (recorders > 0) {
    tell(data, bytes, c10::kCPU);
  }
}

const char* leaf_name() noexcept { return inside == nullptr ? "" : inside->name().c_str(); }

}  // namespace toma

struct toma_recorder {
  std::shared_ptr<toma::Recorder> recorder = std::make_shared<toma::Recorder>();
};

int32_t toma_record_begin(toma_recorder** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    auto handle = std::make_unique<toma_recorder>();
    toma::State::enter(handle->recorder);
    try {
      toma::observe();
    } catch (...) {
      toma::State::leave(*handle->recorder);
      throw;
    }
    *out = handle.release();
  });
}

void toma_record_end(toma_recorder* handle, toma_recording* out) noexcept {
  const auto& said = *handle->recorder;
  toma::State::leave(*handle->recorder);
  toma::observe_no_more();
  *out = {said.events.data(), said.events.size(), said.numbers.data(), said.numbers.size(), said.names.data(), said.names.size(), said.torn};
}

void toma_record_free(toma_recorder* handle) noexcept { delete handle; }

void toma_record_mark(toma_recorder* handle, const char* name) noexcept {
  handle->recorder->write({name == nullptr ? TOMA_ENDS : TOMA_MARK_BEGINS}, name);
}
