// Constant properties of operators, from their schemas.

#include "operators.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "guard.h"

namespace toma {
namespace {

std::atomic<toma_named (*)(const char*)> named_in_table{[](const char*) { return toma_named{}; }};

bool makes_tensor(const c10::Argument& result) {
  const auto& type = *result.type();
  return type.isSubtypeOf(*c10::TensorType::get()) || type.isSubtypeOf(*c10::ListType::ofTensors());
}

bool takes_tensor(const c10::Argument& argument) { return argument.type()->repr_str().find("Tensor") != std::string::npos; }

bool is_pure_view(const c10::OperatorHandle& handle) {
  const auto& arguments = handle.schema().arguments();
  const auto is_alias = [](const c10::Argument& argument) { return argument.alias_info() != nullptr; };
  const auto is_written = [](const c10::Argument& argument) { return argument.alias_info() != nullptr && argument.alias_info()->isWrite(); };
  return std::any_of(arguments.begin(), arguments.end(), is_alias) && std::none_of(arguments.begin(), arguments.end(), is_written) &&
      handle.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView);
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
  // Operators of other libraries may read data.
  const auto is_of_aten = schema.name().rfind("aten::", 0) == 0;
  operation.named = is_of_aten ? named_in_table.load()(schema.name().c_str()) : toma_named{};
  // Overloads with names of dims or with an `out` argument have other arguments.
  operation.named.gathers &= schema.overload_name().empty() || schema.overload_name() == "Tensor";
  operation.is_composite = is_of_aten && handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  operation.is_view = is_pure_view(handle);
  for (const auto& argument : schema.arguments()) {
    operation.takes_tensors |= takes_tensor(argument);
    operation.is_written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    operation.writes |= operation.is_written.back();
  }
  operation.mean = argument_named(schema, "running_mean");
  operation.variance = argument_named(schema, "running_var");
  for (const auto* name : {"training", "train", "use_input_stats"}) {
    operation.trains = operation.trains == none ? argument_named(schema, name) : operation.trains;
  }
  operation.dropout = is_of_aten && operation.trains != none ? argument_named(schema, "dropout") : none;
  return operation;
}

// Returns the properties of an operator from a table of the process. The table is never destroyed, because regions that
// refer to an entry may live until the process ends.
const Operator& shared_operator_of(const c10::OperatorHandle& handle) {
  static auto* operators = new std::unordered_map<const c10::FunctionSchema*, Operator>;
  static std::mutex lock;
  const std::lock_guard<std::mutex> held(lock);
  const auto known = operators->find(&handle.schema());
  return known != operators->end() ? known->second : operators->emplace(&handle.schema(), described(handle)).first->second;
}

}  // namespace

const Operator& operator_of(const c10::OperatorHandle& handle) {
  // Schemas live as long as the library that registered them.
  auto* known = of_thread<ska::flat_hash_map<const c10::FunctionSchema*, const Operator*>>();
  if (known == nullptr) {
    return shared_operator_of(handle);
  }
  auto& found = (*known)[&handle.schema()];
  found = found == nullptr ? &shared_operator_of(handle) : found;
  return *found;
}

bool gives_gradient(const c10::FunctionSchema& schema, const torch::jit::Stack& arguments, const at::Tensor& written) {
  const auto& results = schema.returns();
  const auto is_written = [](const c10::Argument& result) { return result.alias_info() != nullptr && result.alias_info()->isWrite(); };
  const auto type = written.scalar_type();
  if (!c10::GradMode::is_enabled() || written.requires_grad() || !(c10::isFloatingType(type) || c10::isComplexType(type)) ||
      !(results.empty() || std::any_of(results.begin(), results.end(), is_written))) {
    return false;
  }
  auto takes_gradient = false;
  each_tensor_in(arguments, [&](const at::Tensor& tensor, uint32_t, uint32_t) { takes_gradient |= tensor.requires_grad(); });
  return takes_gradient;
}

std::optional<c10::OperatorHandle> handle_of(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  return name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
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

void toma_operators_install(toma_named (*named)(const char* name)) noexcept { toma::named_in_table = named; }
