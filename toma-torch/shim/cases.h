// What becomes of an operator in a dry run, told from what is registered of it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rules.h"

namespace toma {

// The order is that of the questions in `case_of`.
enum class Case { answer, largest, metadata, reshape, in_place, composite, meta, kernel, refused };

struct Known {
  Case what;
  rules::Rule rule;
  // For each result the argument that it is, or -1.
  std::vector<int> aliases;
};

inline bool holds_tensors(const c10::Type& type) {
  const auto holds = type.kind() == c10::TypeKind::OptionalType || type.kind() == c10::TypeKind::ListType;
  return type.kind() == c10::TypeKind::TensorType || (holds && holds_tensors(*type.containedType(0)));
}

inline bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

inline bool has_tag(const c10::OperatorHandle& op, at::Tag tag) {
  const auto& tags = op.getTags();
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

inline std::vector<int> aliases_of(const c10::FunctionSchema& schema) {
  std::vector<int> aliases;
  for (const auto& result : schema.returns()) {
    const auto is_it = [&](const auto& argument) {
      return is_written(result) && is_written(argument) && *argument.alias_info() == *result.alias_info();
    };
    const auto& arguments = schema.arguments();
    const auto found = std::find_if(arguments.begin(), arguments.end(), is_it);
    aliases.push_back(found == arguments.end() ? -1 : static_cast<int>(found - arguments.begin()));
  }
  return aliases;
}

inline bool has_any_kernel(const c10::OperatorHandle& op, std::initializer_list<c10::DispatchKey> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](auto key) { return op.hasKernelForDispatchKey(key); });
}

inline bool has_cpu_kernel(const c10::OperatorHandle& op) {
  return has_any_kernel(op, {c10::DispatchKey::CPU, c10::DispatchKey::CompositeExplicitAutograd});
}

// Those that call others, and make nothing themselves. Some are registered as such, and compute.
inline bool is_composite(const c10::OperatorHandle& op, c10::Device device) {
  const auto& name = op.schema().name();
  const auto backend = c10::computeDispatchKey(c10::kFloat, c10::kStrided, device);
  // The code of `repeat` permutes duplicate dims where it runs on dry tensors.
  const auto computes = name.rfind("aten::mkldnn_", 0) == 0 || name == "aten::convolution_backward" || name == "aten::repeat";
  return !computes && !has_any_kernel(op, {backend}) &&
      has_any_kernel(
             op, {c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::CompositeExplicitAutogradNonFunctional,
                  c10::DispatchKey::CompositeImplicitAutograd});
}

inline Case case_of(const c10::OperatorHandle& op, const std::vector<int>& aliases) {
  const auto name = c10::toString(op.operator_name());
  const auto& arguments = op.schema().arguments();
  const auto& results = op.schema().returns();
  if (has_tag(op, at::Tag::data_dependent_output)) {
    return Case::answer;
  }
  if (has_tag(op, at::Tag::dynamic_output_shape) && name != "aten::index.Tensor") {
    return Case::largest;
  }
  const auto makes_tensors = std::any_of(results.begin(), results.end(), [](const auto& result) {
    return holds_tensors(*result.type()) && (result.alias_info() == nullptr || is_written(result));
  });
  const auto writes = std::any_of(arguments.begin(), arguments.end(), is_written);
  if (!writes && !makes_tensors) {
    return Case::metadata;
  }
  if (has_tag(op, at::Tag::inplace_view) || op.schema().name() == "aten::set_" || name == "aten::resize_") {
    return Case::reshape;
  }
  const auto has_out = std::any_of(arguments.begin(), arguments.end(), [](const auto& one) { return one.is_out(); });
  if (writes && !has_out && std::find(aliases.begin(), aliases.end(), -1) == aliases.end()) {
    return Case::in_place;
  }
  if (has_any_kernel(op, {c10::DispatchKey::Meta})) {
    return Case::meta;
  }
  return has_cpu_kernel(op) && op.schema().getNamespace() == "aten" ? Case::kernel : Case::refused;
}

// Kept by schema: those of operators live as long as the program.
inline const Known& known(const c10::OperatorHandle& op) {
  static std::mutex lock;
  static auto& table = *new std::map<const c10::FunctionSchema*, Known>;
  const std::lock_guard<std::mutex> held(lock);
  const auto [entry, is_new] = table.try_emplace(&op.schema());
  if (is_new) {
    const auto aliases = aliases_of(op.schema());
    entry->second = {case_of(op, aliases), rules::of(op.schema().name()), aliases};
  }
  return entry->second;
}

}  // namespace toma
