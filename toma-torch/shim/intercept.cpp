// Interception of a thread's operators, above autograd and autocast, while it records a region or offloads.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <utility>

#include "guard.h"
#include "offload.h"
#include "operators.h"
#include "runtime.h"
#include "tape.h"

struct toma_region {
  std::shared_ptr<toma::Tape> tape;
  std::shared_ptr<toma::Notes> notes;
};

namespace toma {
namespace {

// The tape handles a call of the program as a whole; offloading handles each operator that does work. A dry run inside a
// region is no part of it: the tape would keep tensors without memory.
void intercept_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (records() && BelowTape::depth() == 0 && is_recorded() && !keys.has(c10::DispatchKey::Fake)) {
    const auto tape = *recording();
    return tape->call(op, *stack);
  }
  const auto* generator = Drawing::current();
  if (generator != nullptr && !given_generator(op, *stack).defined()) {
    give_generator(op, operator_of(op), *stack, *generator);
  }
  if (is_offloading()) {
    return run_offloaded(op, keys, stack);
  }
  if (generator != nullptr) {
    // Operators that it calls are intercepted as well.
    return op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, mode_key), stack);
  }
  const c10::impl::ExcludeDispatchKeyGuard not_here(mode_key);
  op.callBoxed(stack);
}

// Copies as much of the text as fits.
size_t copied(const std::string& text, char* out, size_t room) { return text.copy(out, room); }

template <class T>
size_t copied(const std::vector<T>& values, T* out, size_t room) {
  std::copy_n(values.begin(), std::min(room, values.size()), out);
  return values.size();
}

// True if this thread's stream of the current device captures a graph of CUDA. Runs of the graph would repeat what one
// region has decided.
bool captures_graph() {
  const auto* cuda = c10::impl::hasDeviceGuardImpl(c10::kCUDA) ? c10::impl::getDeviceGuardImpl(c10::kCUDA) : nullptr;
  if (cuda == nullptr || cuda->deviceCount() == 0) {
    return false;
  }
  const auto device = cuda->getDevice();
  static const auto read = function_of_cuda<int(void*, int*)>("cudaStreamIsCapturing");
  static const auto forget = function_of_cuda<int()>("cudaGetLastError");
  // Without a context nothing is captured, and a look at the stream would make one.
  if (read == nullptr || forget == nullptr || !at::detail::getCUDAHooks().hasPrimaryContext(device.index())) {
    return false;
  }
  int status = 0;
  const auto is_read = read(cuda->getStream(device).native_handle(), &status) == 0;
  // libtorch would take the error for its own.
  return is_read ? status != 0 : (forget(), false);
}

}  // namespace

const c10::RegistrationHandleRAII* register_fallback(c10::DispatchKey key, c10::KernelFunction kernel, const char* name) {
  try {
    return new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerFallback(key, std::move(kernel), name));
  } catch (const c10::Error&) {
    throw c10::NotImplementedError(
        std::string(name) + ": another copy of toma in this process is registered with libtorch; link all code that uses toma "
                            "into one library, or use it from one of them only", nullptr);
  }
}

void register_mode_key() {
  [[gnu::used]] static const auto* registered = register_fallback(
      mode_key, c10::KernelFunction::makeFromBoxedFunction<&intercept_call>(), "checkpoint and offload");
}

}  // namespace toma

int32_t toma_region_begin(
    toma_choose choose, void* context, toma_region_options options, toma_region** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    if (!toma::engine_is_ours()) {
      throw c10::NotImplementedError("checkpoint: another autograd engine is in libtorch's place, as in a program with Python", nullptr);
    }
    if (toma::captures_graph()) {
      throw c10::NotImplementedError("checkpoint: a graph of CUDA is being captured: run the region outside of captures", nullptr);
    }
    toma::register_mode_key();
    // Allocated first: a tape that ends has reported its end, and after an error nothing may be reported.
    auto region = std::make_unique<toma_region>();
    auto recording = std::make_unique<std::shared_ptr<toma::Tape>>();
    *recording = std::make_shared<toma::Tape>(choose, context, options);
    region->tape = *recording;
    region->notes = region->tape->notes;
    *out = region.release();
    toma::recording() = recording.release();
    c10::impl::tls_set_dispatch_key_included(toma::mode_key, true);
  });
}

void toma_region_end(toma_region* region) noexcept {
  c10::impl::tls_set_dispatch_key_included(toma::mode_key, toma::entered() > 0);
  delete std::exchange(toma::recording(), nullptr);
  if (const auto tape = std::move(region->tape)) {
    tape->end();
  }
}

bool toma_region_is_inside(const toma_region* region, const void* tensor) noexcept {
  return region->tape->is_inside(toma::tensor_of(tensor));
}

void toma_region_cut(int32_t layers) noexcept {
  if (toma::records()) {
    (*toma::recording())->cut(layers);
  }
}

bool toma_region_records() noexcept { return toma::records(); }

toma_region_figures toma_region_figures_of(const toma_region* region) noexcept {
  const std::lock_guard<std::mutex> held(region->notes->lock);
  return region->notes->figures;
}

size_t toma_region_prints(const toma_region* region, uint64_t* out, size_t room) noexcept {
  const std::lock_guard<std::mutex> held(region->notes->lock);
  return toma::copied(region->notes->prints, out, room);
}

size_t toma_region_kept(const toma_region* region, char* out, size_t room) noexcept {
  const std::lock_guard<std::mutex> held(region->notes->lock);
  return toma::copied(region->notes->kept, out, room);
}

int32_t toma_region_set_gradients_aside(toma_region* region, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const std::lock_guard<std::mutex> held(region->notes->lock);
    for (const auto& leaf : region->notes->leaves) {
      if (const auto variable = leaf.variable.lock()) {
        region->notes->undo->gradients.push_back({at::Tensor(variable), variable->grad()});
        // Backward adds to an existing gradient, which takes other memory than making a new one.
        variable->mutable_grad() = variable->grad().defined() ? toma::copy_of(variable->grad()) : at::Tensor();
      }
    }
  });
}

int32_t toma_region_undo(toma_region* region, toma_error* error) noexcept {
  return toma::guarded(error, [&] { region->notes->undo->all(); });
}

uint64_t toma_region_lacking(const toma_region* region) noexcept {
  const std::lock_guard<std::mutex> held(region->notes->lock);
  return region->notes->lacking_bytes();
}

void toma_region_drop(toma_region* region) noexcept { delete region; }
