// States of random number generators, and the generators from which operators draw.

#include "random.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <mutex>

#include "operators.h"

namespace toma {
namespace {

const at::Generator& default_generator(c10::Device device) {
  return at::globalContext().defaultGenerator(device.is_cpu() ? c10::Device(c10::kCPU) : device);
}

at::CPUGeneratorImpl& of_cpu(const at::Generator& generator) { return *generator.get<at::CPUGeneratorImpl>(); }

bool is_same(const at::mt19937& one, const at::mt19937& other) {
  const auto ours = one.data(), theirs = other.data();
  return ours.left_ == theirs.left_ && ours.next_ == theirs.next_ && ours.state_ == theirs.state_;
}

// True if nothing was drawn since the engine was seeded.
bool is_fresh(const at::mt19937& engine) { return is_same(engine, at::mt19937(engine.seed())); }

// Offset of the generator. 0 on a GPU that is not in use, because reading it would create a context there.
uint64_t offset_of(const at::Generator& generator) {
  const auto device = generator.device();
  const bool is_used = !device.is_cuda() || at::detail::getCUDAHooks().hasPrimaryContext(device.index());
  return is_used ? generator.get_offset() : 0;
}

// The argument of that name; null if there is none.
const c10::IValue* argument(const c10::OperatorHandle& op, const torch::jit::Stack& stack, const char* name) {
  const auto at = op.schema().argumentIndexWithName(name);
  return at ? &torch::jit::peek(stack, static_cast<size_t>(*at), op.schema().arguments().size()) : nullptr;
}

bool& was_included() noexcept {
  static thread_local bool included = false;
  return included;
}

}  // namespace

Random::Random(c10::Device device) : Random(default_generator(device)) {}

Random::Random(at::Generator generator) : of(std::move(generator)) {
  const std::lock_guard<std::mutex> lock(of.mutex());
  if (of.device().is_cpu()) {
    engine = of_cpu(of).engine();
    next_float = of_cpu(of).next_float_normal_sample();
    next_double = of_cpu(of).next_double_normal_sample();
  } else {
    seed = of.current_seed();
    offset = offset_of(of);
  }
}

std::vector<Random> Random::of_all() {
  std::vector<Random> all{Random(c10::kCPU)};
  const auto& cuda = at::detail::getCUDAHooks();
  for (int index = 0; index < cuda.getNumGPUs(); ++index) {
    // Does not use libtorch's context, which would begin to use the device.
    all.emplace_back(cuda.getDefaultGenerator(static_cast<c10::DeviceIndex>(index)));
  }
  return all;
}

void Random::put() const {
  if (of.device().is_cpu()) {
    of_cpu(of).set_engine(*engine);
    of_cpu(of).set_next_float_normal_sample(next_float);
    of_cpu(of).set_next_double_normal_sample(next_double);
  } else {
    of.set_current_seed(seed);
    if (offset != 0) {
      of.set_offset(offset);
    }
  }
}

void Random::set() const {
  const std::lock_guard<std::mutex> lock(of.mutex());
  put();
}

void Random::undo_seed() const {
  const std::lock_guard<std::mutex> lock(of.mutex());
  if (is_seeded_since()) {
    put();
  }
}

bool Random::was_seeded() const {
  const std::lock_guard<std::mutex> lock(of.mutex());
  return is_seeded_since();
}

// Dry runs and measurements draw from other generators, or set the generator back themselves. So a seed of their body
// stays fresh, and a state from which numbers were drawn is taken for another thread's. It is the body's after all if
// that seeds and another thread draws meanwhile.
bool Random::is_seeded_since() const {
  if (!of.device().is_cpu()) {
    return offset_of(of) == 0 && (of.current_seed() != seed || offset != 0);
  }
  const auto now = of_cpu(of).engine();
  return is_fresh(now) && (now.seed() != engine->seed() || !is_fresh(*engine));
}

bool Random::operator==(const Random& other) const {
  if (seed != other.seed || offset != other.offset || next_float != other.next_float || next_double != other.next_double) {
    return false;
  }
  return !engine || is_same(*engine, *other.engine);
}

std::mutex& Random::lock() {
  static std::mutex lock;
  return lock;
}

Turn::Turn() : process(default_generator(c10::kCPU)), alone(process.mutex()), copy(process.clone()) {}

Turn::~Turn() {
  auto& from = of_cpu(copy);
  auto& to = of_cpu(process);
  to.set_engine(from.engine());
  to.set_next_float_normal_sample(from.next_float_normal_sample());
  to.set_next_double_normal_sample(from.next_double_normal_sample());
}

at::Generator own_generator() {
  auto process = default_generator(c10::kCPU);
  const std::lock_guard<std::mutex> lock(process.mutex());
  return process.clone();
}

const at::Generator*& Drawing::current() noexcept {
  static thread_local const at::Generator* generator = nullptr;
  return generator;
}

bool Drawing::is_key_included() noexcept {
  return current() != nullptr ? was_included() : c10::impl::tls_is_dispatch_key_included(mode_key);
}

Drawing::Drawing(const at::Generator& generator)
    : outer(current()),
      included(c10::impl::tls_is_dispatch_key_included(mode_key)),
      excluded(c10::impl::tls_is_dispatch_key_excluded(mode_key)) {
  if (generator == default_generator(generator.device())) {
    current() = nullptr;
    return;
  }
  if (outer == nullptr) {
    was_included() = included;
  }
  current() = &generator;
  c10::impl::tls_set_dispatch_key_included(mode_key, true);
  c10::impl::tls_set_dispatch_key_excluded(mode_key, false);
}

Drawing::~Drawing() {
  current() = outer;
  c10::impl::tls_set_dispatch_key_included(mode_key, included);
  c10::impl::tls_set_dispatch_key_excluded(mode_key, excluded);
}

bool draws_nothing(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto is_zero = [&](const char* name) {
    const auto* given = argument(op, stack, name);
    return given != nullptr && given->isDouble() && given->toDouble() == 0;
  };
  const auto* trains = argument(op, stack, "train");
  return (trains != nullptr && trains->isBool() && !trains->toBool()) || is_zero("dropout_p") || is_zero("dropout");
}

at::Generator given_generator(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto* given = argument(op, stack, "generator");
  return given != nullptr && given->isGenerator() ? given->toGenerator() : at::Generator();
}

bool draws_from_process(const c10::OperatorHandle& op, const Operator& operation, const torch::jit::Stack& stack) {
  return operation.is_random && !operation.named.calls_others_on_cpu && !op.schema().argumentIndexWithName("generator") &&
      op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && !draws_nothing(op, stack);
}

void give_generator(const c10::OperatorHandle& op, const Operator& operation, torch::jit::Stack& stack, const at::Generator& generator) {
  const auto& schema = op.schema();
  if (const auto at = schema.argumentIndexWithName("generator")) {
    torch::jit::peek(stack, static_cast<size_t>(*at), schema.arguments().size()) = generator;
  } else if (draws_from_process(op, operation, stack)) {
    throw c10::NotImplementedError(
        c10::str(op.operator_name(), " draws from the random numbers of the whole process: it takes no generator"), nullptr);
  }
}

}  // namespace toma
