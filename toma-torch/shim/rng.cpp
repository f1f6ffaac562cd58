// The state of libtorch's default generators, as bytes.

#include <ATen/Context.h>

#include <cstring>
#include <mutex>

#include "guard.h"
#include "shim.h"

namespace {

// The generator is not safe to use from two threads; its mutex is public for that.
template <class F>
void with_generator(int32_t type, int32_t index, F body) {
  const auto kind = toma::existing_kind(type, index);
  const auto cpu = kind == c10::DeviceType::CPU;
  const auto& generator = at::globalContext().defaultGenerator(c10::Device(kind, cpu ? -1 : static_cast<c10::DeviceIndex>(index)));
  auto* state = generator.unsafeGetGeneratorImpl();
  // The state travels in a tensor, which must not fail where memory is short: it is short when a
  // state is put back.
  const toma::Exempt exempt;
  const std::lock_guard<std::mutex> lock(state->mutex_);
  body(*state);
}

}  // namespace

int32_t toma_rng_get(int32_t type, int32_t index, void** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    with_generator(type, index, [&](c10::GeneratorImpl& generator) { *out = new at::Tensor(generator.get_state()); });
  });
}

int32_t toma_rng_set(int32_t type, int32_t index, const uint8_t* bytes, size_t size, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    with_generator(type, index, [&](c10::GeneratorImpl& generator) {
      const auto state = generator.get_state();
      TORCH_CHECK(
          size == static_cast<size_t>(state->numel()), "the state of the generator has ", state->numel(), " bytes, not ", size);
      std::memcpy(state->mutable_data(), bytes, size);
      generator.set_state(*state);
    });
  });
}
