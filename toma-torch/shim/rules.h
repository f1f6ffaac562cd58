// Shapes of what kernels make that have no Meta kernel, so that a dry run need not ask them. A rule knows
// results alone: what a kernel takes besides them only the kernel can tell.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/mul_ops.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace toma::rules {

using torch::jit::Stack;
using Sizes = std::vector<int64_t>;

inline at::Tensor made(const Sizes& sizes, at::ScalarType type, at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  return at::Tensor(at::detail::empty_meta(sizes, type, format));
}

inline at::Tensor same(const at::Tensor& like) {
  return made(like.sizes().vec(), like.scalar_type(), like.suggest_memory_format());
}

inline at::Tensor tensor(const Stack& arguments, size_t at) {
  return arguments[at].isTensor() ? arguments[at].toTensor() : at::Tensor();
}

// The shapes of what they are gradients of; those that are not wanted are undefined.
inline Stack gradients(const std::vector<at::Tensor>& of, const c10::IValue& mask) {
  Stack results;
  const auto wanted = mask.toBoolList();
  for (size_t at = 0; at < of.size(); ++at) {
    results.emplace_back(wanted[at] && of[at].defined() ? same(of[at]) : at::Tensor());
  }
  return results;
}

inline Stack relu(const Stack& arguments) { return {same(tensor(arguments, 0))}; }

inline Stack dropout(const Stack& arguments) {
  const auto input = tensor(arguments, 0);
  return {same(input), made(input.sizes().vec(), at::kBool, input.suggest_memory_format())};
}

// Condition, and two between which it chooses: what meets is of one shape and one type.
inline Stack where(const Stack& arguments) {
  const auto chosen = at::_ops::add_Tensor::call(tensor(arguments, 1), tensor(arguments, 2), 1);
  return {at::_ops::mul_Tensor::call(chosen, tensor(arguments, 0))};
}

inline Stack average_pool(const Stack& arguments) {
  const auto input = tensor(arguments, 0);
  const auto pooled = arguments[1].toIntVector();
  auto sizes = input.sizes().vec();
  std::copy(pooled.begin(), pooled.end(), sizes.end() - 2);
  return {made(sizes, input.scalar_type(), input.suggest_memory_format())};
}

inline Stack index_select(const Stack& arguments) {
  const auto input = tensor(arguments, 0);
  auto sizes = input.sizes().vec();
  if (!sizes.empty()) {
    sizes[static_cast<size_t>(c10::maybe_wrap_dim(arguments[1].toInt(), input.dim()))] = tensor(arguments, 2).numel();
  }
  return {made(sizes, input.scalar_type())};
}

inline Stack embedding_dense_backward(const Stack& arguments) {
  const auto gradient = tensor(arguments, 0);
  return {made({arguments[2].toInt(), gradient.size(-1)}, gradient.scalar_type())};
}

// Input, weight, bias, padding, stride, dilation, groups.
inline Stack convolution(const Stack& arguments) {
  const auto input = tensor(arguments, 0), weight = tensor(arguments, 1);
  const auto padding = arguments[3].toIntVector(), stride = arguments[4].toIntVector(), dilation = arguments[5].toIntVector();
  Sizes sizes{input.size(0), weight.size(0)};
  for (size_t at = 0; at + 2 < static_cast<size_t>(input.dim()); ++at) {
    const auto dim = static_cast<int64_t>(at) + 2;
    const auto kernel = dilation[at] * (weight.size(dim) - 1) + 1;
    sizes.push_back((input.size(dim) + 2 * padding[at] - kernel) / stride[at] + 1);
  }
  const auto format = input.suggest_memory_format();
  return {made(sizes, input.scalar_type(), format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format)};
}

// Gradient, input, weight, sizes of the bias, and the mask last.
inline Stack convolution_backward(const Stack& arguments) {
  const auto input = tensor(arguments, 1), weight = tensor(arguments, 2);
  const auto bias = made({tensor(arguments, 0).size(1)}, weight.scalar_type());
  return gradients({input, weight, bias}, arguments[10]);
}

// Input, weight, bias, running mean and variance, and whether it trains.
inline Stack batch_norm(const Stack& arguments) {
  const auto input = tensor(arguments, 0), weight = tensor(arguments, 1);
  const auto type = weight.defined() ? weight.scalar_type() : input.scalar_type();
  const Sizes kept{arguments[5].toBool() ? input.size(1) : 0};
  return {same(input), made(kept, type), made(kept, type)};
}

inline Stack batch_norm_backward(const Stack& arguments) {
  const auto weight = tensor(arguments, 2);
  return gradients({tensor(arguments, 1), weight, weight}, arguments[9]);
}

// Input, normalized shape, weight, bias.
inline Stack layer_norm(const Stack& arguments) {
  const auto input = tensor(arguments, 0), weight = tensor(arguments, 2);
  auto sizes = input.sizes().vec();
  const auto normalized = arguments[1].toIntVector().size();
  std::fill(sizes.end() - static_cast<int64_t>(normalized), sizes.end(), 1);
  const auto type = weight.defined() ? weight.scalar_type() : input.scalar_type();
  return {same(input), made(sizes, type), made(sizes, type)};
}

// Gradient, input, normalized shape, mean, deviation, weight, bias, mask.
inline Stack layer_norm_backward(const Stack& arguments) {
  return gradients({tensor(arguments, 1), tensor(arguments, 5), tensor(arguments, 6)}, arguments[7]);
}

// Heads lie beside each other in memory, token by token.
inline at::Tensor by_token(const at::Tensor& like) {
  const auto sizes = like.sizes();
  const auto strides = Sizes{sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[1] * sizes[3], 1};
  return at::Tensor(at::detail::empty_strided_meta(sizes, strides, like.scalar_type()));
}

inline Stack attention(const Stack& arguments) {
  const auto queries = tensor(arguments, 0);
  const auto type = at::isReducedFloatingType(queries.scalar_type()) ? at::kFloat : queries.scalar_type();
  const auto heads = queries.size(1), tokens = queries.size(2);
  const auto strides = Sizes{heads * tokens, 1, heads};
  return {by_token(queries), at::Tensor(at::detail::empty_strided_meta({queries.size(0), heads, tokens}, strides, type))};
}

inline Stack attention_backward(const Stack& arguments) {
  return {by_token(tensor(arguments, 1)), by_token(tensor(arguments, 2)), by_token(tensor(arguments, 3))};
}

// `zeros` of the CPU comes by no other operator.
inline Stack zeros(const Stack& arguments) {
  const auto type = arguments[1].isNone() ? c10::get_default_dtype_as_scalartype() : arguments[1].toScalarType();
  return {made(arguments[0].toIntVector(), type)};
}

struct Rule {
  Stack (*shapes)(const Stack& arguments) = nullptr;
  // The kernel of the CPU takes nothing besides.
  bool is_all = false;
};

// Arguments and results are on Meta.
inline Rule of(const std::string& name) {
  static const auto& table = *new std::unordered_map<std::string, Rule>{
      {"aten::zeros", {zeros, true}},
      {"aten::relu", {relu, true}},
      // Its kernel draws from the random numbers of the program.
      {"aten::native_dropout", {dropout, true}},
      {"aten::index_select", {index_select, true}},
      {"aten::where", {where, true}},
      {"aten::_adaptive_avg_pool2d", {average_pool, true}},
      {"aten::_adaptive_avg_pool2d_backward", {[](const Stack& arguments) { return Stack{same(tensor(arguments, 1))}; }, true}},
      {"aten::embedding_dense_backward", {embedding_dense_backward}},
      {"aten::mkldnn_convolution", {convolution}},
      {"aten::convolution_backward", {convolution_backward}},
      {"aten::native_batch_norm", {batch_norm}},
      {"aten::native_batch_norm_backward", {batch_norm_backward}},
      {"aten::native_layer_norm", {layer_norm}},
      {"aten::native_layer_norm_backward", {layer_norm_backward}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", {attention}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {attention_backward}},
  };
  const auto found = table.find(name);
  return found == table.end() ? Rule() : found->second;
}

}  // namespace toma::rules
