// The leaves and the memory of a live step, as libtorch's observers tell of them.

#include "observe.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>

#include <algorithm>

#include "guard.h"

namespace toma {
namespace {

thread_local Unobserved* unobserved = nullptr;
// The leaf that this thread is in; what its kernels call is no leaf.
thread_local const c10::FunctionSchema* inside = nullptr;

uint64_t device_number(c10::Device device) {
  return uint64_t{static_cast<uint8_t>(device.type())} << 32 | static_cast<uint32_t>(std::max<int>(device.index(), 0));
}

// A number for each thread: libtorch's own is of the system, and may come again.
uint32_t thread_number() {
  static std::atomic<uint32_t> threads{0};
  thread_local const uint32_t number = threads++;
  return number;
}

template <class F>
void each_recorder(F body) {
  const auto* state = unobserved == nullptr ? State::current() : nullptr;
  if (state != nullptr) {
    state->each<Recorder>([&](const auto& recorder) { body(*recorder); });
  }
}

struct Leaf final : at::ObserverContext {
  const c10::FunctionSchema* schema = nullptr;
};

// Composites only call others; those are the leaves. Kernels of other libraries are taken as they are.
bool is_composite(const c10::OperatorHandle& op) {
  return op.schema().getNamespace() == "aten" && op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

std::optional<c10::OperatorHandle> leaf_of(const at::RecordFunction& function) {
  const auto name = inside != nullptr || unobserved != nullptr ? std::nullopt : function.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  return op && !is_composite(*op) ? op : std::nullopt;
}

void uses(
    Recorder& recorder, const std::vector<c10::Argument>& described, c10::ArrayRef<const c10::IValue> values,
    toma_access plain, toma_access aliasing) {
  for (size_t at = 0; at < std::min(described.size(), values.size()); ++at) {
    const auto* alias = described[at].alias_info();
    const auto access = alias == nullptr ? plain : alias->isWrite() ? TOMA_WRITES : aliasing;
    each_tensor(values[at], [&](const at::Tensor& tensor) { recorder.used(tensor, access); });
    if (values[at].isInt() || values[at].isBool()) {
      recorder.attribute(described[at].name(), {values[at].isInt() ? values[at].toInt() : values[at].toBool()});
    } else if (values[at].isIntList()) {
      recorder.attribute(described[at].name(), values[at].toIntVector());
    }
  }
}

std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    each_recorder([&](Recorder& recorder) { recorder.begin(TOMA_NODE_BEGINS, function.name()); });
    return nullptr;
  }
  const auto op = leaf_of(function);
  if (!op) {
    return nullptr;
  }
  auto leaf = std::make_unique<Leaf>();
  leaf->schema = &op->schema();
  inside = leaf->schema;
  each_recorder([&](Recorder& recorder) {
    recorder.begin(TOMA_OPERATOR_BEGINS, c10::toString(op->operator_name()));
    uses(recorder, leaf->schema->arguments(), function.inputs(), TOMA_READS, TOMA_READS);
  });
  return leaf;
}

void ended(const at::RecordFunction& function, at::ObserverContext* context) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    each_recorder([](Recorder& recorder) { recorder.end(TOMA_NODE_ENDS); });
    return;
  }
  const auto* leaf = static_cast<const Leaf*>(context);
  if (leaf == nullptr) {
    return;
  }
  inside = nullptr;
  each_recorder([&](Recorder& recorder) {
    const auto& returns = leaf->schema->returns();
    for (size_t at = 0; at < std::min(returns.size(), function.outputs().size()); ++at) {
      const auto* alias = returns[at].alias_info();
      const auto access = alias == nullptr ? TOMA_MAKES : alias->isWrite() ? TOMA_WRITES : TOMA_VIEWS;
      each_tensor(function.outputs()[at], [&](const at::Tensor& tensor) { recorder.used(tensor, access); });
    }
    recorder.end(TOMA_OPERATOR_ENDS);
  });
}

struct Reporter final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void* data, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (unobserved != nullptr) {
      unobserved->allocated += bytes;
      unobserved->peak = std::max(unobserved->peak, unobserved->allocated);
      return;
    }
    each_recorder([&](Recorder& recorder) {
      bytes >= 0 ? recorder.born(data, bytes, device) : recorder.died(data, -bytes, device);
    });
  }

  bool memoryProfilingEnabled() const override { return true; }
};

// What a thread with recorders has registered with libtorch: once, however many recorders.
struct Observing {
  uint64_t recorders = 0;
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
  std::shared_ptr<c10::DebugInfoBase> reporter;
};
thread_local Observing observing;

void observe() {
  // Libtorch's profiler takes whatever is in its slot for its own.
  if (observing.recorders == 0 && c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) != nullptr) {
    throw c10::NotImplementedError("memory of this thread is being profiled by libtorch", nullptr);
  }
  if (observing.recorders++ == 0) {
    observing.reporter = std::make_shared<Reporter>();
    c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, observing.reporter);
    auto callback = at::RecordFunctionCallback(started, ended).needsInputs(true).needsOutputs(true);
    callback.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
    observing.callback = at::addThreadLocalCallback(callback);
  }
}

void observe_no_more() noexcept {
  if (--observing.recorders > 0) {
    return;
  }
  at::removeCallback(observing.callback);
  try {
    if (c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) == observing.reporter.get()) {
      c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
    }
  } catch (const std::exception&) {
    // Other code has pushed above it: it stays, and tells nobody.
  }
  observing.reporter = nullptr;
}

}  // namespace

template <class F>
void Recorder::write(F body) noexcept {
  try {
    const std::lock_guard<std::mutex> held(lock);
    body();
  } catch (const std::exception&) {
    torn = true;
  }
}

toma_event Recorder::event(toma_event_kind kind, uint64_t subject) const {
  return {static_cast<uint32_t>(kind), thread_number(), subject, 0, 0, 0};
}

void Recorder::begin(toma_event_kind kind, const std::string& name) noexcept {
  write([&] {
    events.push_back(event(kind, number(name)));
  });
}

uint64_t Recorder::number(const std::string& name) {
  const auto [number, is_new] = numbers.emplace(name, names.size());
  if (is_new) {
    names.push_back(name);
  }
  return number->second;
}

void Recorder::end(toma_event_kind kind) noexcept {
  write([&] { events.push_back(event(kind, 0)); });
}

void Recorder::born(const void* data, uint64_t bytes, c10::Device device) noexcept {
  write([&] {
    auto birth = event(TOMA_BORN, storages);
    birth.bytes = bytes;
    birth.device = device_number(device);
    if (const auto before = living.find(data); before != living.end()) {
      // Freed where this thread could not see it.
      events.push_back(event(TOMA_DIED, before->second));
    }
    events.push_back(birth);
    living[data] = storages++;
  });
}

uint64_t Recorder::existing(const void* data, uint64_t bytes, c10::Device device) {
  const auto [storage, is_new] = living.emplace(data, storages);
  if (is_new) {
    auto existed = event(TOMA_EXISTED, storages++);
    existed.bytes = bytes;
    existed.device = device_number(device);
    events.push_back(existed);
  }
  return storage->second;
}

void Recorder::died(const void* data, uint64_t bytes, c10::Device device) noexcept {
  write([&] {
    events.push_back(event(TOMA_DIED, existing(data, bytes, device)));
    living.erase(data);
  });
}

void Recorder::used(const at::TensorBase& tensor, toma_access access) noexcept {
  const auto* data = address_of(tensor);
  if (data == nullptr || tensor.layout() != c10::kStrided) {
    return;
  }
  write([&] {
    // Before the use: it may be what tells of the storage.
    auto use = event(TOMA_USED, existing(data, tensor.storage().nbytes(), tensor.device()));
    use.bytes = shapes.size();
    use.device = static_cast<uint64_t>(access) | uint64_t{tensor.requires_grad()} << 8;
    use.dims = tensor.dim();
    shapes.insert(shapes.end(), tensor.sizes().begin(), tensor.sizes().end());
    events.push_back(use);
  });
}

void Recorder::attribute(const std::string& name, c10::ArrayRef<int64_t> values) noexcept {
  write([&] {
    auto attribute = event(TOMA_ATTRIBUTE, number(name));
    attribute.bytes = shapes.size();
    attribute.dims = values.size();
    shapes.insert(shapes.end(), values.begin(), values.end());
    events.push_back(attribute);
  });
}

const char* leaf_name() noexcept { return inside == nullptr ? "" : inside->name().c_str(); }

Unobserved::Unobserved() noexcept : outer(unobserved) { unobserved = this; }
Unobserved::~Unobserved() { unobserved = outer; }

}  // namespace toma

struct toma_recorder {
  std::shared_ptr<toma::Recorder> recorder;
  std::shared_ptr<toma::State> state;
};

int32_t toma_record_begin(toma_recorder** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    auto recorder = std::make_shared<toma::Recorder>();
    auto handle = std::make_unique<toma_recorder>();
    handle->recorder = recorder;
    toma::observe();
    try {
      handle->state = toma::State::enter(recorder);
    } catch (...) {
      toma::observe_no_more();
      throw;
    }
    *out = handle.release();
  });
}

void toma_record_end(toma_recorder* handle) noexcept {
  toma::State::leave(handle->state, handle->recorder.get());
  toma::observe_no_more();
}

void toma_record_mark(toma_recorder* handle, const char* name) noexcept {
  handle->recorder->begin(TOMA_MARK_BEGINS, name);
}

void toma_record_unmark(toma_recorder* handle) noexcept { handle->recorder->end(TOMA_MARK_ENDS); }

void toma_record_read(const toma_recorder* handle, toma_recording* out) noexcept {
  const auto& recorder = *handle->recorder;
  *out = {recorder.events.data(), recorder.events.size(), recorder.shapes.data(), recorder.shapes.size(), recorder.torn};
}

const char* toma_record_name(const toma_recorder* handle, uint64_t number) noexcept {
  return handle->recorder->names[number].c_str();
}

void toma_record_free(toma_recorder* handle) noexcept { delete handle; }
