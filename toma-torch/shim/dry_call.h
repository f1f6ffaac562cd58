// One call of an operator in a dry run, and its arguments as other tensors that only look like them.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cstring>

#include "dry.h"
#include "operators.h"

namespace toma {

using torch::jit::Stack;
constexpr auto fake = c10::DispatchKey::Fake;

// What libtorch says of memory that is not there.
constexpr const char* no_data = "a tensor of a dry run has no data";

// One call of an operator.
struct Call {
  std::shared_ptr<Dry> run;
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;
  Stack& stack;
  Stack arguments;
  const toma_named& named = operator_of(op).named;
  // Where it makes its results: on the accelerator, if it is told so or one of its tensors is there.
  c10::Device device = c10::kCPU;
  // Products copy operands that libraries cannot take as they are.
  bool has_copies = false;
  // Lives until the results are made.
  c10::DataPtr scratch = {};

  const std::string& name() const { return op.schema().name(); }

  void below() const {
    try {
      op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, fake), &stack);
    } catch (const c10::Error& error) {
      if (std::strstr(error.what_without_backtrace(), no_data) != nullptr) {
        refuse("its code for this device reads memory");
      }
      throw;
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    const auto text = c10::toString(op.operator_name()) + ": " + why;
    const std::lock_guard<std::mutex> held(run->lock);
    run->refused = run->refused.empty() ? text : run->refused;
    throw c10::NotImplementedError("dry run: " + text, nullptr);
  }
};

// While a kernel is asked by us: no graph, and no coming back here.
struct Undisturbed : Unobserved {
  c10::impl::ExcludeDispatchKeyGuard not_fake{fake};
  at::AutoDispatchBelowADInplaceOrView below_autograd;
};

// With each tensor in it replaced.
template <class F>
inline Stack mapped(Stack values, const F& replace) {
  for (auto& value : values) {
    c10::IValue::HashIdentityIValueMap replaced;
    each_tensor(value, [&](const at::Tensor& tensor) { replaced.try_emplace(tensor, replace(tensor)); });
    value = replaced.empty() ? value : value.deepcopy(replaced);
  }
  return values;
}

// Of the elements that it has alone: an argument may be a small part of what is in memory.
inline at::Tensor twin_on(c10::DeviceType kind, const at::Tensor& like) {
  const auto bytes = at::detail::computeStorageNbytes(like.sizes(), like.strides(), like.itemsize());
  const auto made = twin(like, bytes, kind, *c10::GetAllocator(kind));
  if (kind == c10::kCPU) {
    std::fill_n(static_cast<char*>(made.storage().mutable_data()), bytes, '\0');
  }
  return made;
}

// The arguments with tensors that only look like them, of zeros, and random numbers from elsewhere than the
// program's.
inline Stack twins_on(c10::DeviceType kind, const Call& call) {
  static const auto& random = *new at::Generator(at::detail::createCPUGenerator());
  auto stack = mapped(call.arguments, [kind](const at::Tensor& like) { return twin_on(kind, like); });
  if (const auto at = call.op.schema().argumentIndexWithName("device")) {
    stack[static_cast<size_t>(*at)] = c10::Device(kind);
  }
  give_generator(call.op, operator_of(call.op), stack, random);
  return stack;
}

}  // namespace toma
