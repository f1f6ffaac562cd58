// State of libtorch's default generators, as bytes.

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <cstring>
#include <mutex>

#include "guard.h"
#include "shim.h"

namespace {

// Calls `body` with the generator under its mutex, which is public because a generator is not thread-safe.
template <class F>
void with_generator(toma_device device, F body) {
  const auto existing = toma::existing(device);
  // The CPU is a single device and has no index there.
  const auto& generator = at::globalContext().defaultGenerator(existing.is_cpu() ? c10::Device(at::kCPU) : existing);
  auto* state = generator.unsafeGetGeneratorImpl();
  // The state is copied in a tensor, whose allocation must not fail when memory is short, as it is when a state is
  // restored.
  const toma::Exempt exempt;
  const std::lock_guard<std::mutex> lock(state->mutex_);
  body(*state);
}

}  // namespace

int32_t toma_rng_get(toma_device device, void** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    with_generator(device, [&](c10::GeneratorImpl& generator) { *out = new at::Tensor(generator.get_state()); });
  });
}

int32_t toma_rng_set(toma_device device, const uint8_t* bytes, size_t size, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    with_generator(device, [&](c10::GeneratorImpl& generator) {
      const auto state = generator.get_state();
      TORCH_CHECK(
          size == static_cast<size_t>(state->numel()), "the state of the generator has ", state->numel(), " bytes, not ", size);
      std::memcpy(state->mutable_data(), bytes, size);
      generator.set_state(*state);
    });
  });
}
