// Reports of operators and nodes of all threads to a profiler as they begin and end, and the current operator of a
// thread without a profiler.

#include <ATen/SequenceNumber.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#ifndef _WIN32
#include <dlfcn.h>
#include <unwind.h>
#endif

#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>

#include "operators.h"
#include "shim.h"

namespace {

// Listener for every operator, which lives forever; null for none.
std::atomic<const toma_listener*> listening{nullptr};
at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;

// The thread is in the upper bits, so that numbers of two threads differ; 0 is no node.
uint64_t node_of(uint64_t thread, int64_t sequence) {
  constexpr int bits = 40;
  return thread << bits | (static_cast<uint64_t>(sequence + 1) & ((uint64_t{1} << bits) - 1));
}

bool is_composite(const c10::OperatorHandle& op) {
  return op.schema().getNamespace() == "aten" && op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// Cached properties of an operator, by the address of its name in the dispatcher, which does not change.
struct Known {
  const char* key = nullptr;
  uint32_t name = 0;
  // Composites only call other operators.
  bool is_leaf = false;
};

const Known& known(const at::RecordFunction& function, const toma_listener& listener) {
  static thread_local std::array<Known, 512> cache;
  const auto* key = function.name();
  auto& entry = cache[reinterpret_cast<uintptr_t>(key) / 16 % cache.size()];
  if (entry.key != key) {
    const auto name = function.operator_name();
    const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
    entry = {key, op ? listener.named(key) : 0, op && !is_composite(*op)};
  }
  return entry;
}

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

// Context of an operator or node whose begin was reported. Operators that kernels of a leaf call are no leaves.
struct Begun final : at::ObserverContext {
  explicit Begun(bool is_leaf) : is_leaf(is_leaf) {}
  bool is_leaf;
};

thread_local bool is_in_leaf = false;

std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
  const auto& listener = *listening.load(std::memory_order_acquire);
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    listener.node_begins(name_of_node(function.name(), listener), node_of(function.forwardThreadId(), function.seqNr()));
    return std::make_unique<Begun>(false);
  }
  if (is_in_leaf) {
    return nullptr;
  }
  const auto& op = known(function, listener);
  if (!op.is_leaf) {
    return nullptr;
  }
  is_in_leaf = true;
  const auto sequence = function.seqNr();
  listener.operator_begins(op.name, sequence < 0 ? 0 : node_of(at::RecordFunction::currentThreadId(), sequence));
  return std::make_unique<Begun>(true);
}

void ended(const at::RecordFunction&, at::ObserverContext* context) {
  if (const auto* begun = static_cast<const Begun*>(context)) {
    is_in_leaf = is_in_leaf && !begun->is_leaf;
    listening.load(std::memory_order_acquire)->ends();
  }
}

#ifndef _WIN32

// Operators whose entry functions are on the stack, the innermost first, as symbols.
struct Entries {
  std::array<const char*, 32> symbols;
  size_t count = 0;
};

constexpr char prefix[] = "_ZN2at4_ops";

// Finding a symbol takes time proportional to the symbols of its library, so results are cached.
const char* symbol_at(const void* address) {
  static thread_local std::array<std::pair<const void*, const char*>, 1024> cache;
  auto& entry = cache[reinterpret_cast<uintptr_t>(address) % cache.size()];
  if (entry.first != address) {
    Dl_info info{};
    entry = {address, dladdr(address, &info) != 0 ? info.dli_sname : nullptr};
  }
  return entry.second;
}

_Unwind_Reason_Code note(_Unwind_Context* frame, void* to) {
  auto& entries = *static_cast<Entries*>(to);
  const auto* symbol = symbol_at(reinterpret_cast<const void*>(_Unwind_GetIP(frame)));
  if (symbol != nullptr && std::strncmp(symbol, prefix, sizeof prefix - 1) == 0) {
    entries.symbols[entries.count % entries.symbols.size()] = symbol + sizeof prefix - 1;
    ++entries.count;
  }
  return _URC_NO_REASON;
}

// Parses `10add_Tensor4call..` as `aten::add`, overload `Tensor`. Only the dispatcher knows which underscore ends the
// name.
std::optional<c10::OperatorHandle> operator_of(const char* symbol) {
  char* rest = nullptr;
  const auto length = std::strtoul(symbol, &rest, 10);
  const std::string entry(rest, std::min<size_t>(length, std::strlen(rest)));
  auto& dispatcher = c10::Dispatcher::singleton();
  if (const auto op = dispatcher.findSchema({"aten::" + entry, ""})) {
    return op;
  }
  for (auto end = entry.rfind('_'); end != std::string::npos && end > 0; end = entry.rfind('_', end - 1)) {
    if (const auto op = dispatcher.findSchema({"aten::" + entry.substr(0, end), entry.substr(end + 1)})) {
      return op;
    }
  }
  return std::nullopt;
}

// Returns the outermost operator that is no composite: everything that it calls is its own work.
std::optional<c10::OperatorHandle> operator_of_stack() {
  Entries entries;
  _Unwind_Backtrace(note, &entries);
  const auto kept = std::min(entries.count, entries.symbols.size());
  std::optional<c10::OperatorHandle> found;
  for (size_t back = 0; back < kept; ++back) {
    found = operator_of(entries.symbols[(entries.count - 1 - back) % entries.symbols.size()]);
    if (found && !is_composite(*found)) {
      return found;
    }
  }
  return found;
}

#else

std::optional<c10::OperatorHandle> operator_of_stack() { return std::nullopt; }

#endif

}  // namespace

void toma_profile_operators(const toma_listener* listener) noexcept {
  if (const auto before = std::exchange(callback, at::INVALID_CALLBACK_HANDLE); before != at::INVALID_CALLBACK_HANDLE) {
    at::removeCallback(before);
  }
  if (listener == nullptr) {
    return;
  }
  listening.store(listener, std::memory_order_release);
  auto observer = at::RecordFunctionCallback(started, ended);
  callback = at::addGlobalCallback(observer.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

uint64_t toma_profile_position() noexcept {
  return node_of(at::RecordFunction::currentThreadId(), static_cast<int64_t>(at::sequence_number::peek()));
}

uint64_t toma_profile_node() noexcept {
  if (const auto repeated = toma::repeated_position(); repeated != 0) {
    return repeated;
  }
  const auto node = torch::autograd::get_current_node();
  return node == nullptr ? 0 : node_of(node->thread_id(), static_cast<int64_t>(node->sequence_nr()));
}

uint32_t toma_profile_operator(uint32_t (*named)(const char*)) noexcept {
  try {
    const auto op = operator_of_stack();
    return op ? named(op->schema().name().c_str()) : UINT32_MAX;
  } catch (const std::exception&) {
    // No memory even for a name.
    return UINT32_MAX;
  }
}
