// The state of libtorch's default generators, as bytes.

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <cstring>
#include <mutex>

#include "guard.h"
#include "shim.h"

namespace {

// The generator is not safe to use from two threads; its mutex is public for that.
template <class F>
void with_generator(toma_device device, F body) {
  const auto existing = toma::existing(device);
  // The CPU is one, and has no index there.
  const auto& generator = at::globalContext().defaultGenerator(existing.is_cpu() ? c10::Device(at::kCPU) : existing);
  auto* state = generator.unsafeGetGeneratorImpl();
  // The state travels in a tensor, which must not fail where memory is short: it is short when a
  // state is put back.
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
