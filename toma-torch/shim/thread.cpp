// State of a thread: whether errors carry a backtrace, and the modes of operators.

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/macros/Export.h>
#include <c10/util/Backtrace.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "guard.h"
#include "shim.h"

// Of ATen/autocast_mode.h, which includes every operator there is.
namespace at::autocast {
TORCH_API int increment_nesting();
TORCH_API int decrement_nesting();
TORCH_API void clear_cache();
}  // namespace at::autocast

namespace {

thread_local int32_t quiet = 0;

// Set before there are threads.
bool (*would_retry_out_of_memory)() = nullptr;

// Never destroyed: threads may raise errors while the process ends.
const std::string& nothing() {
  static const auto* empty = new std::string;
  return *empty;
}

bool means_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return true;
  }
  if (const auto* accelerator = dynamic_cast<const c10::AcceleratorError*>(&error)) {
    // The number of CUDA and of HIP.
    return accelerator->get_error_code() == 2;
  }
  // The host's has no type.
  return std::strstr(error.what_without_backtrace(), "DefaultCPUAllocator: ") != nullptr;
}

// Whether the error that this thread handles means that. It may be another than the one whose text is
// asked for, which then lacks a backtrace: an error does not tell which backtrace it wraps.
bool handles_out_of_memory() {
  const auto caught = std::current_exception();
  if (caught == nullptr) {
    return false;
  }
  try {
    std::rethrow_exception(caught);
  } catch (const c10::Error& error) {
    return means_out_of_memory(error);
  } catch (...) {
    return false;
  }
}

// A backtrace that is written down only when somebody will read it.
//
// Where an error is raised its type is not known yet: this is made by the constructor of its base.
// It is known where the text is asked for, which is where the error was caught; there the thread
// also is the one that the error goes to, while an error of backward is raised on a device's thread.
struct Trace final : c10::LazyValue<std::string> {
  explicit Trace(c10::Backtrace written) : written(std::move(written)) {}

  const std::string& get() const override {
    return quiet > 0 || (would_retry_out_of_memory() && handles_out_of_memory()) ? nothing() : written->get();
  }

  c10::Backtrace written;
};

// Stands in for libtorch's own fetcher, which cannot be asked for: it does the same, later.
c10::Backtrace fetch() {
  static const auto* none = new c10::Backtrace(std::make_shared<c10::PrecomputedLazyValue<std::string>>(nothing()));
  return quiet > 0 ? *none : std::make_shared<Trace>(c10::get_lazy_backtrace(/*frames_to_skip=*/1));
}

enum AutogradMode : uint32_t { grad, forward_grad, inference, multithreading, view_replay };

uint64_t autocast_depth() {
  at::autocast::increment_nesting();
  return static_cast<uint64_t>(at::autocast::decrement_nesting());
}

// Leaving the last region drops the weights that autocast has cast; a region that was left by a panic
// would keep them for good.
void set_autocast_depth(uint64_t depth) {
  auto now = autocast_depth();
  const auto leaves_last = now > 0 && depth == 0;
  for (; now < depth; ++now) {
    at::autocast::increment_nesting();
  }
  for (; now > depth; --now) {
    at::autocast::decrement_nesting();
  }
  if (leaves_last) {
    at::autocast::clear_cache();
  }
}

uint64_t bit(AutogradMode mode, bool on) { return uint64_t{on} << mode; }

c10::DispatchKeySet keys(uint64_t raw) { return {c10::DispatchKeySet::RAW, raw}; }

}  // namespace

void toma_traces_install(bool (*would_retry)()) noexcept {
  static std::once_flag once;
  std::call_once(once, [&] {
    would_retry_out_of_memory = would_retry;
    c10::SetStackTraceFetcher(std::function<c10::Backtrace()>(fetch));
  });
}

void toma_traces_quiet(int32_t change) noexcept { quiet += change; }

void toma_modes_get(toma_modes* out) noexcept {
  const auto dispatch = c10::impl::tls_local_dispatch_key_set();
  const auto& state = c10::AutogradState::get_tls_state();
  *out = {
      dispatch.included_.raw_repr(),
      dispatch.excluded_.raw_repr(),
      bit(grad, state.get_grad_mode()) | bit(forward_grad, state.get_fw_grad_mode()) |
          bit(inference, state.get_inference_mode()) | bit(multithreading, state.get_multithreading_enabled()) |
          bit(view_replay, state.get_view_replay_enabled()),
      autocast_depth(),
  };
}

void toma_casts_clear() noexcept { at::autocast::clear_cache(); }

int32_t toma_modes_set(const toma_modes* modes, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    set_autocast_depth(modes->autocast_depth);
    const auto has = [&](AutogradMode mode) { return (modes->autograd >> mode & 1) != 0; };
    // A copy of the state in force: it holds more than we know of.
    auto autograd = c10::AutogradState::get_tls_state();
    autograd.set_grad_mode(has(grad));
    autograd.set_fw_grad_mode(has(forward_grad));
    autograd.set_inference_mode(has(inference));
    autograd.set_multithreading_enabled(has(multithreading));
    autograd.set_view_replay_enabled(has(view_replay));
    c10::AutogradState::set_tls_state(std::move(autograd));
    auto dispatch = c10::impl::tls_local_dispatch_key_set();
    dispatch.included_ = keys(modes->included);
    dispatch.excluded_ = keys(modes->excluded);
    c10::impl::_force_tls_local_dispatch_key_set(dispatch);
  });
}
