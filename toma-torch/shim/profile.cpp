// The current operator and node of a thread.

#include <ATen/SequenceNumber.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#ifndef _WIN32
#include <dlfcn.h>
#include <unwind.h>
#endif

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "observe.h"
#include "operators.h"
#include "shim.h"

namespace {

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
    if (found && !toma::operator_of(*found).is_composite) {
      return found;
    }
  }
  return found;
}

#else

std::optional<c10::OperatorHandle> operator_of_stack() { return std::nullopt; }

#endif

}  // namespace

uint64_t toma_profile_position() noexcept {
  return toma::node_of(at::RecordFunction::currentThreadId(), static_cast<int64_t>(at::sequence_number::peek()));
}

uint64_t toma_profile_node() noexcept {
  if (const auto repeated = toma::repeated_position(); repeated != 0) {
    return repeated;
  }
  const auto node = torch::autograd::get_current_node();
  return node == nullptr ? 0 : toma::node_of(node->thread_id(), static_cast<int64_t>(node->sequence_nr()));
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
