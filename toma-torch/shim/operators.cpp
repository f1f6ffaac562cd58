// What is always true of an operator, by its schema.

#include "operators.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "guard.h"

namespace toma {
namespace {

bool makes_tensor(const c10::Argument& result) {
  const auto& type = *result.type();
  return type.isSubtypeOf(*c10::TensorType::get()) || type.isSubtypeOf(*c10::ListType::ofTensors());
}

uint32_t argument_named(const c10::FunctionSchema& schema, const char* name) {
  const auto at = schema.argumentIndexWithName(name);
  return at ? static_cast<uint32_t>(*at) : none;
}

Operator described(const c10::OperatorHandle& handle) {
  const auto& schema = handle.schema();
  Operator operation;
  operation.number = std::hash<c10::OperatorName>()(handle.operator_name());
  operation.is_random = handle.hasTag(at::Tag::nondeterministic_seeded);
  const auto& results = schema.returns();
  operation.makes_tensors = std::any_of(results.begin(), results.end(), makes_tensor);
  for (const auto& argument : schema.arguments()) {
    operation.is_written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    operation.writes |= operation.is_written.back();
  }
  operation.mean = argument_named(schema, "running_mean");
  operation.variance = argument_named(schema, "running_var");
  for (const auto* name : {"training", "train", "use_input_stats"}) {
    operation.trains = operation.trains == none ? argument_named(schema, name) : operation.trains;
  }
  return operation;
}

}  // namespace

const Operator& operator_of(const c10::OperatorHandle& handle) {
  // Schemas live as long as the library that registers them. Never destroyed: threads may end after it would be.
  static thread_local auto* known = new ska::flat_hash_map<const c10::FunctionSchema*, std::unique_ptr<Operator>>;
  auto& found = (*known)[&handle.schema()];
  if (found == nullptr) {
    found = std::make_unique<Operator>(described(handle));
  }
  return *found;
}

uint64_t hash_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == c10::kByte) {
    return 0;
  }
  const Exempt exempt;
  const c10::impl::ExcludeDispatchKeyGuard not_recorded(mode_key);
  const auto dense = tensor.detach().to(c10::kCPU).contiguous();
  const auto* bytes = static_cast<const char*>(dense.const_data_ptr());
  return std::hash<std::string_view>()({bytes, dense.nbytes()});
}

}  // namespace toma
