// One call of an operator in a dry run.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "cases.h"
#include "dry.h"

namespace toma {

using Stack = torch::jit::Stack;
constexpr auto fake = c10::DispatchKey::Fake;

struct Call {
  std::shared_ptr<Dry> run;
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;
  Stack arguments;
  // Where it makes its results: on the accelerator, if it is told so or one of its tensors is there.
  c10::Device device;

  const std::string& name() const { return op.schema().name(); }

  void below(Stack& stack) const {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, fake), &stack);
  }

  bool is_dry(const at::Tensor& tensor) const {
    const auto* block = block_of(tensor);
    return block != nullptr && block->run == run;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    const auto text = c10::toString(op.operator_name()) + ": " + why;
    const std::lock_guard<std::mutex> held(run->lock);
    run->refused = run->refused.empty() ? text : run->refused;
    throw c10::NotImplementedError("dry run: " + text, nullptr);
  }
};

// While a kernel is asked by us: no graph, and no coming back here.
struct Undisturbed {
  c10::impl::ExcludeDispatchKeyGuard not_fake{fake};
  at::AutoDispatchBelowADInplaceOrView below_autograd;
};

// With each tensor in it replaced.
template <class F>
c10::IValue mapped(const c10::IValue& value, const F& replace) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? replace(value.toTensor()) : value;
  }
  if (!value.isList() || !holds_tensors(*value.toList().elementType())) {
    return value;
  }
  auto list = value.toList().copy();
  for (size_t at = 0; at < list.size(); ++at) {
    list.set(at, mapped(list.get(at), replace));
  }
  return list;
}

template <class F>
Stack mapped(const Stack& stack, const F& replace) {
  Stack replaced;
  for (const auto& value : stack) {
    replaced.push_back(mapped(value, replace));
  }
  return replaced;
}

}  // namespace toma
