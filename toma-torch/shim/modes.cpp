// Modes of a thread, which change the behavior of operators.

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/ScalarType.h>
#include <c10/macros/Export.h>

#include "guard.h"
#include "operators.h"
#include "shim.h"

// Declarations from ATen/autocast_mode.h, which includes every operator.
namespace at::autocast {
TORCH_API int increment_nesting();
TORCH_API int decrement_nesting();
TORCH_API void clear_cache();
TORCH_API c10::ScalarType get_autocast_dtype(c10::DeviceType device);
TORCH_API void set_autocast_dtype(c10::DeviceType device, c10::ScalarType dtype);
}  // namespace at::autocast

namespace {

enum AutogradMode : uint32_t { grad, forward_grad, inference, multithreading, view_replay };

uint64_t autocast_depth() {
  at::autocast::increment_nesting();
  return static_cast<uint64_t>(at::autocast::decrement_nesting());
}

// Leaving the last region drops the weights that autocast has cast. A region that was left by a panic would keep them
// forever.
void set_autocast_depth(uint64_t depth) {
  const auto before = autocast_depth();
  for (auto now = before; now < depth; ++now) {
    at::autocast::increment_nesting();
  }
  for (auto now = before; now > depth; --now) {
    at::autocast::decrement_nesting();
  }
  if (before > 0 && depth == 0) {
    at::autocast::clear_cache();
  }
}

// Accelerator on which tch runs operators under autocast. No others are read, because each costs every attempt 5 ns.
#ifdef __APPLE__
constexpr auto accelerator = c10::DeviceType::MPS;
#else
constexpr auto accelerator = c10::DeviceType::CUDA;
#endif

// Types that autocast casts to, one byte for each of the two devices.
uint64_t autocast_dtypes() {
  const auto of = [](c10::DeviceType device) { return static_cast<uint8_t>(at::autocast::get_autocast_dtype(device)); };
  return uint64_t{of(accelerator)} << 8 | of(c10::DeviceType::CPU);
}

void set_autocast_dtypes(uint64_t dtypes) {
  at::autocast::set_autocast_dtype(accelerator, static_cast<c10::ScalarType>(dtypes >> 8 & 0xff));
  at::autocast::set_autocast_dtype(c10::DeviceType::CPU, static_cast<c10::ScalarType>(dtypes & 0xff));
}

uint64_t bit(AutogradMode mode, bool on) { return uint64_t{on} << mode; }

c10::DispatchKeySet keys(uint64_t raw) { return {c10::DispatchKeySet::RAW, raw}; }

// Not a mode of the program: a manager may be entered or left between the two calls below, in any order.
constexpr c10::DispatchKeySet own(toma::mode_key);

}  // namespace

void toma_modes_get(toma_modes* out) noexcept {
  const auto dispatch = c10::impl::tls_local_dispatch_key_set();
  const auto& state = c10::AutogradState::get_tls_state();
  *out = {
      (dispatch.included_ - own).raw_repr(),
      (dispatch.excluded_ - own).raw_repr(),
      bit(grad, state.get_grad_mode()) | bit(forward_grad, state.get_fw_grad_mode()) |
          bit(inference, state.get_inference_mode()) | bit(multithreading, state.get_multithreading_enabled()) |
          bit(view_replay, state.get_view_replay_enabled()),
      autocast_depth(),
      autocast_dtypes(),
  };
}

void toma_casts_clear() noexcept { at::autocast::clear_cache(); }

int32_t toma_modes_set(const toma_modes* modes, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    set_autocast_depth(modes->autocast_depth);
    set_autocast_dtypes(modes->autocast_dtypes);
    const auto has = [&](AutogradMode mode) { return (modes->autograd >> mode & 1) != 0; };
    // A copy of the current state, which has more fields than we know of.
    auto autograd = c10::AutogradState::get_tls_state();
    autograd.set_grad_mode(has(grad));
    autograd.set_fw_grad_mode(has(forward_grad));
    autograd.set_inference_mode(has(inference));
    autograd.set_multithreading_enabled(has(multithreading));
    autograd.set_view_replay_enabled(has(view_replay));
    c10::AutogradState::set_tls_state(std::move(autograd));
    auto dispatch = c10::impl::tls_local_dispatch_key_set();
    dispatch.included_ = keys(modes->included) | (dispatch.included_ & own);
    dispatch.excluded_ = keys(modes->excluded) | (dispatch.excluded_ & own);
    c10::impl::_force_tls_local_dispatch_key_set(dispatch);
  });
}
