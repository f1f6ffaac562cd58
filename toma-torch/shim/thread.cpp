// State of a thread: whether errors carry a backtrace, and the modes of operators.

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Backtrace.h>
#include <c10/util/Logging.h>

#include <functional>
#include <memory>
#include <mutex>

#include "guard.h"
#include "shim.h"

namespace {

thread_local int32_t quiet = 0;

// Stands in for libtorch's own fetcher, which cannot be asked for and put back: this one does the
// same unless its thread is quiet.
c10::Backtrace fetch() {
  static const c10::Backtrace none = std::make_shared<c10::PrecomputedLazyValue<std::string>>(std::string());
  return quiet > 0 ? none : c10::get_lazy_backtrace(/*frames_to_skip=*/1);
}

c10::DispatchKeySet keys(uint64_t raw) { return {c10::DispatchKeySet::RAW, raw}; }

}  // namespace

void toma_traces_quiet(int32_t change) noexcept {
  static std::once_flag once;
  std::call_once(once, [] { c10::SetStackTraceFetcher(std::function<c10::Backtrace()>(fetch)); });
  quiet += change;
}

void toma_modes_get(toma_modes* out) noexcept {
  const auto dispatch = c10::impl::tls_local_dispatch_key_set();
  const auto& autograd = c10::AutogradState::get_tls_state();
  *out = {
      dispatch.included_.raw_repr(),
      dispatch.excluded_.raw_repr(),
      autograd.get_grad_mode(),
      autograd.get_fw_grad_mode(),
      autograd.get_inference_mode(),
      autograd.get_multithreading_enabled(),
      autograd.get_view_replay_enabled(),
  };
}

// Autocast is a dispatch key that is excluded while it is off.
int32_t toma_modes_set(const toma_modes* modes, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    // A copy of the state in force: it holds more than we know of.
    auto autograd = c10::AutogradState::get_tls_state();
    autograd.set_grad_mode(modes->grad);
    autograd.set_fw_grad_mode(modes->forward_grad);
    autograd.set_inference_mode(modes->inference);
    autograd.set_multithreading_enabled(modes->multithreading);
    autograd.set_view_replay_enabled(modes->view_replay);
    c10::AutogradState::set_tls_state(std::move(autograd));
    auto dispatch = c10::impl::tls_local_dispatch_key_set();
    dispatch.included_ = keys(modes->included);
    dispatch.excluded_ = keys(modes->excluded);
    c10::impl::_force_tls_local_dispatch_key_set(dispatch);
  });
}
