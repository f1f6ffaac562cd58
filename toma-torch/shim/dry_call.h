// One call of an operator in a dry run, with replacements of its arguments that have only their shapes.
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

// libtorch's error message for an access to memory that a dry tensor does not have.
constexpr const char* no_data = "a tensor of a dry run has no data";

// One call of an operator.
struct Call {
  std::shared_ptr<Dry> run;
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;
  Stack& stack;
  Stack arguments;
  const toma_named& named = operator_of(op).named;
  // Device of the results: the accelerator, if an argument names it or one of the tensors is on it.
  c10::Device device = c10::kCPU;
  // True if a matrix product would copy operands that its library cannot take as they are.
  bool has_copies = false;
  // Kept until the results are made.
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

// Guard for our own calls of a kernel: records no graph and does not come back here.
struct Undisturbed : Unobserved {
  c10::impl::ExcludeDispatchKeyGuard not_fake{fake};
  at::AutoDispatchBelowADInplaceOrView below_autograd;
};

// Returns the values with each tensor replaced.
template <class F>
inline Stack mapped(Stack values, const F& replace) {
  for (auto& value : values) {
    c10::IValue::HashIdentityIValueMap replaced;
    each_tensor(value, [&](const at::Tensor& tensor) { replaced.try_emplace(tensor, replace(tensor)); });
    value = replaced.empty() ? value : value.deepcopy(replaced);
  }
  return values;
}

// Makes a twin with only the elements of the tensor, which may be a small part of its memory.
inline at::Tensor twin_on(c10::DeviceType kind, const at::Tensor& like) {
  const auto bytes = at::detail::computeStorageNbytes(like.sizes(), like.strides(), like.itemsize());
  const auto made = twin(like, bytes, kind, *c10::GetAllocator(kind));
  if (kind == c10::kCPU) {
    std::fill_n(static_cast<char*>(made.storage().mutable_data()), bytes, '\0');
  }
  return made;
}

// Returns the arguments with tensors of zeros that have the same shapes, and with a generator other than the program's.
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
