// Shapes of results of kernels that have no Meta kernel, so that a dry run need not call them. A rule knows only
// results: the scratch of a kernel is known to the kernel alone.
//
// There are rules for kernels without which nets of many layers take longer than 50 ms to plan, and for
// `native_dropout`, which only accelerators call.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/core/stack.h>
#include <ATen/native/ConvUtils.h>

#include "shim.h"

namespace toma::rules {

using torch::jit::Stack;
using Sizes = std::vector<int64_t>;

inline at::Tensor made(const Sizes& sizes, at::ScalarType type, at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  return at::Tensor(at::detail::empty_meta(sizes, type, format));
}

// A tensor that looks like the argument, or has these sizes; undefined if the argument is.
inline at::Tensor like(const c10::IValue& argument, at::ScalarType type_of_sizes = at::kFloat) {
  const auto tensor = argument.isTensor() ? argument.toTensor() : at::Tensor();
  return argument.isIntList() ? made(argument.toIntVector(), type_of_sizes)
      : tensor.defined()      ? made(tensor.sizes().vec(), tensor.scalar_type(), tensor.suggest_memory_format()) : tensor;
}

// Gradients of the arguments at the indices `Of`, as far as the mask in the last argument wants them.
template <size_t... Of>
Stack gradients(const Stack& arguments) {
  const auto wanted = arguments.back().toBoolList();
  const auto type = arguments[0].toTensor().scalar_type();
  size_t at = 0;
  return {(wanted[at++] ? like(arguments[Of], type) : at::Tensor())...};
}

// Arguments: input, weight, bias, stride, padding, dilation, transposed or not, padding of the output, groups. One
// number stands for all dims.
inline Stack convolution(const Stack& arguments) {
  const auto &input = arguments[0].toTensor(), &weight = arguments[1].toTensor();
  const auto numbers = [&](size_t at) {
    auto all = arguments[at].toIntVector();
    all.resize(static_cast<size_t>(input.dim()) - 2, all.at(0));
    return all;
  };
  const auto stride = numbers(3), padding = numbers(4), dilation = numbers(5);
  const auto sizes = arguments[6].toBool()
      ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, numbers(7), stride, dilation, arguments[8].toInt())
      : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  const auto format = input.suggest_memory_format();
  return {made(sizes, input.scalar_type(), format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format)};
}

// The normalized tensor, and two numbers for each group of its elements, of the type of the weight.
inline Stack normalized(const c10::IValue& input, const c10::IValue& weight, const Sizes& groups) {
  const auto statistics = made(groups, (like(weight).defined() ? weight : input).toTensor().scalar_type());
  return {like(input), statistics, like(statistics)};
}

// Arguments: input, weight, bias, running mean, running variance, training or not.
inline Stack batch_norm(const Stack& arguments) {
  return normalized(arguments[0], arguments[1], {arguments[5].toBool() ? arguments[0].toTensor().size(1) : 0});
}

// As `batch_norm`, and cuDNN's reserve, which is empty. In channels-last format cuDNN also takes scratch, at most 4 % of the
// output, which is left out.
inline Stack cudnn_batch_norm(const Stack& arguments) {
  auto results = batch_norm(arguments);
  results.emplace_back(made({0}, at::kByte));
  return results;
}

// Arguments: input, gradient of the output, weight.
inline Stack cudnn_batch_norm_backward(const Stack& arguments) { return {like(arguments[0]), like(arguments[2]), like(arguments[2])}; }

// Arguments: input, normalized shape, weight, bias.
inline Stack layer_norm(const Stack& arguments) {
  auto sizes = arguments[0].toTensor().sizes().vec();
  std::fill(sizes.end() - static_cast<int64_t>(arguments[1].toIntVector().size()), sizes.end(), 1);
  return normalized(arguments[0], arguments[2], sizes);
}

inline Stack index_select(const Stack& arguments) {
  const auto& input = arguments[0].toTensor();
  auto sizes = input.sizes().vec();
  if (!sizes.empty()) {
    sizes[static_cast<size_t>(c10::maybe_wrap_dim(arguments[1].toInt(), input.dim()))] = arguments[2].toTensor().numel();
  }
  return {made(sizes, input.scalar_type())};
}

inline Stack embedding_backward(const Stack& arguments) {
  return {made({arguments[2].toInt(), arguments[0].toTensor().size(-1)}, arguments[0].toTensor().scalar_type())};
}

// Heads lie next to each other in memory, token by token.
inline at::Tensor by_token(const at::Tensor& like) {
  return made(like.transpose(1, 2).sizes().vec(), like.scalar_type()).transpose(1, 2);
}

inline Stack attention(const Stack& arguments) {
  const auto& queries = arguments[0].toTensor();
  return {by_token(queries), by_token(queries.select(-1, 0)).to(at::toOpMathType(queries.scalar_type()))};
}

inline Stack attention_backward(const Stack& arguments) {
  return {by_token(arguments[1].toTensor()), by_token(arguments[2].toTensor()), by_token(arguments[3].toTensor())};
}

// Arguments: queries, keys, values, bias, and if the logarithms of sums are wanted, which are for blocks of 32 queries.
// The two numbers at which dropout begins are counted, although the kernel keeps them on the host.
inline Stack efficient_attention(const Stack& arguments) {
  const auto &queries = arguments[0].toTensor(), &values = arguments[2].toTensor();
  const auto rows = queries.size(0), heads = queries.size(1), tokens = queries.size(2);
  const auto output = made({rows, tokens, heads, values.size(3)}, queries.scalar_type()).transpose(1, 2);
  const auto sums = made({rows, heads, arguments[4].toBool() ? (tokens + 31) / 32 * 32 : 0}, at::kFloat);
  return {output, sums, made({}, at::kLong), made({}, at::kLong)};
}

// Arguments: gradient of the output, queries, keys, values, bias; number 10 is the mask of wanted gradients.
inline Stack efficient_attention_backward(const Stack& arguments) {
  const auto wanted = arguments[10].toBoolList();
  const auto gradient = [&](size_t at) { return by_token(arguments[at].toTensor()); };
  return {gradient(1), gradient(2), gradient(3), wanted[3] ? like(arguments[4]) : at::Tensor()};
}

// Arguments: queries, keys, values, dropout. Results: output, sums, no cumulative lengths, the most tokens, the state
// in which dropout began, an empty debug mask.
inline Stack flash_attention(const Stack& arguments) {
  const auto &queries = arguments[0].toTensor(), &keys = arguments[1].toTensor();
  const auto sums = made({queries.size(0), queries.size(1), queries.size(2)}, at::kFloat);
  const at::Tensor none;
  return {by_token(queries), sums, none, none, queries.size(2), keys.size(2), made({2}, at::kUInt64), made({}, at::kUInt64), made({0}, queries.scalar_type())};
}

// A dense tensor whose dims have the same order in memory, with these sizes.
inline at::Tensor ordered_as(const at::Tensor& like, const Sizes& sizes) {
  return at::Tensor(at::detail::empty_strided_meta(sizes, at::infer_dense_strides(sizes, like.strides()), like.scalar_type()));
}

// Arguments: queries, keys, values, bias, and if the logarithms of sums are wanted. Results: output, sums, no cumulative
// lengths, the most tokens, the two numbers at which dropout begins, no debug mask.
inline Stack cudnn_attention(const Stack& arguments) {
  const auto &queries = arguments[0].toTensor(), &keys = arguments[1].toTensor(), &values = arguments[2].toTensor();
  const auto rows = queries.size(0), heads = queries.size(1), tokens = queries.size(2);
  const auto sums = arguments[4].toBool() ? made({rows, heads, tokens, 1}, at::kFloat) : at::Tensor();
  const at::Tensor none;
  return {ordered_as(queries, {rows, heads, tokens, values.size(3)}), sums, none, none, tokens, keys.size(2), made({}, at::kLong), made({}, at::kLong), none};
}

// Arguments: gradient of the output, queries, keys, values.
inline Stack cudnn_attention_backward(const Stack& arguments) {
  const auto gradient = [&](size_t at) { return ordered_as(arguments[at].toTensor(), arguments[at].toTensor().sizes().vec()); };
  return {gradient(1), gradient(2), gradient(3)};
}

// Gradients of the gates of a recurrent cell, and of their bias if there is one: a sum over the rows.
inline Stack with_bias(Stack gradients, const Sizes& gates, at::ScalarType type, bool has_bias, size_t biases) {
  for (size_t bias = 0; bias < biases; ++bias) {
    gradients.emplace_back(has_bias ? made({gates[1]}, type) : at::Tensor());
  }
  return gradients;
}

// The fused cells of CUDA, which also run where cuDNN does not. Arguments: gates of the input, gates of the hidden
// state, state, biases. The workspace of a GRU has five numbers for each of the state. Source: RNN.cu of PyTorch 2.11.0.
inline Stack lstm_cell(const Stack& arguments) { return {like(arguments[2]), like(arguments[2]), like(arguments[0])}; }

inline Stack gru_cell(const Stack& arguments) {
  const auto& state = arguments[2].toTensor();
  return {like(state), made({state.size(0), 5 * state.size(1)}, state.scalar_type())};
}

// Arguments: gradients of the hidden state and of the cell, the cell before and after, workspace, with bias or not.
inline Stack lstm_cell_backward(const Stack& arguments) {
  const auto& workspace = arguments[4].toTensor();
  return with_bias({like(workspace), like(arguments[2])}, workspace.sizes().vec(), workspace.scalar_type(), arguments[5].toBool(), 1);
}

// Arguments: gradient of the hidden state, workspace, with bias or not.
inline Stack gru_cell_backward(const Stack& arguments) {
  const auto& workspace = arguments[1].toTensor();
  const Sizes gates{workspace.size(0), workspace.size(1) / 5 * 3};
  const auto type = workspace.scalar_type();
  return with_bias({made(gates, type), made(gates, type), like(arguments[0])}, gates, type, arguments[2].toBool(), 2);
}

// Scratch of CUDA's backward in bytes: sums of gradients of queries, and one number for each query. Source: `mha_bwd`
// in flash_api.cpp, and `workspace_size` in kernel_backward.h of PyTorch 2.11.0. The sums for keys and values, which
// some shapes need, are left out. cuDNN 9.19 on an H200 takes a small block forward and 256 bytes more backward.
inline int64_t scratch(uint8_t rule, const Stack& arguments) {
  const auto up = [](int64_t number, int64_t to) { return (number + to - 1) / to * to; };
  if (rule == TOMA_SHAPE_CUDNN_ATTENTION) {
    return 256;
  }
  if (rule != TOMA_SHAPE_FLASH_ATTENTION_BACKWARD && rule != TOMA_SHAPE_EFFICIENT_ATTENTION_BACKWARD && rule != TOMA_SHAPE_CUDNN_ATTENTION_BACKWARD) {
    return 0;
  }
  const auto& queries = arguments[1].toTensor();
  const auto heads = queries.size(0) * queries.size(1), tokens = queries.size(2), width = queries.size(3);
  if (rule == TOMA_SHAPE_CUDNN_ATTENTION_BACKWARD) {
    return heads * tokens * (width + 1) * int64_t{sizeof(float)} + 256;
  }
  if (rule == TOMA_SHAPE_FLASH_ATTENTION_BACKWARD) {
    return heads * up(tokens, 128) * (up(width, width <= 192 ? 32 : 256) + 1) * int64_t{sizeof(float)};
  }
  constexpr int64_t tile = 64, locks = 4;
  return heads * (up(tokens, tile) / tile * (up(width, tile) / tile) * (tile * tile + locks) + tokens) * int64_t{sizeof(float)};
}

inline Stack dropout(const Stack& arguments) { return {like(arguments[0]), like(arguments[0]).to(at::kBool)}; }

// Arguments and results are on Meta.
using Rule = Stack (*)(const Stack& arguments);

// Null if there is no rule.
inline Rule of(uint8_t rule) {
  switch (rule) {
    case TOMA_SHAPE_DROPOUT: return dropout;
    case TOMA_SHAPE_INDEX_SELECT: return index_select;
    case TOMA_SHAPE_EMBEDDING_BACKWARD: return embedding_backward;
    case TOMA_SHAPE_CONVOLUTION: return convolution;
    case TOMA_SHAPE_CONVOLUTION_BACKWARD: return gradients<1, 2, 3>;
    case TOMA_SHAPE_BATCH_NORM: return batch_norm;
    case TOMA_SHAPE_BATCH_NORM_BACKWARD: return gradients<1, 2, 2>;
    case TOMA_SHAPE_LAYER_NORM: return layer_norm;
    case TOMA_SHAPE_LAYER_NORM_BACKWARD: return gradients<1, 5, 6>;
    case TOMA_SHAPE_ATTENTION: return attention;
    case TOMA_SHAPE_ATTENTION_BACKWARD: return attention_backward;
    case TOMA_SHAPE_EFFICIENT_ATTENTION: return efficient_attention;
    case TOMA_SHAPE_EFFICIENT_ATTENTION_BACKWARD: return efficient_attention_backward;
    case TOMA_SHAPE_FLASH_ATTENTION: return flash_attention;
    case TOMA_SHAPE_FLASH_ATTENTION_BACKWARD: return attention_backward;
    case TOMA_SHAPE_CUDNN_ATTENTION: return cudnn_attention;
    case TOMA_SHAPE_CUDNN_ATTENTION_BACKWARD: return cudnn_attention_backward;
    case TOMA_SHAPE_CUDNN_BATCH_NORM: return cudnn_batch_norm;
    case TOMA_SHAPE_CUDNN_BATCH_NORM_BACKWARD: return cudnn_batch_norm_backward;
    case TOMA_SHAPE_GRU_CELL: return gru_cell;
    case TOMA_SHAPE_GRU_CELL_BACKWARD: return gru_cell_backward;
    case TOMA_SHAPE_LSTM_CELL: return lstm_cell;
    case TOMA_SHAPE_LSTM_CELL_BACKWARD: return lstm_cell_backward;
    default: return nullptr;
  }
}

}  // namespace toma::rules
