// Operators that only CUDA has, or that draw without being given a generator, written with operators of the CPU.
#pragma once
#include <ATen/CPUGeneratorImpl.h>

#include "host_view.h"

// The state of the card's generator before an operator drew from it.
struct Draw {
  uint64_t seed = 0, offset = 0;

  // A generator of the CPU seeded from this state. Its numbers repeat when a program sets the card's generator back,
  // and the CPU's own generator is not touched.
  at::Generator generator() const {
    return at::make_generator<at::CPUGeneratorImpl>(seed * 0x9E3779B97F4A7C15ull + offset);
  }
};

inline std::optional<at::Tensor> optional(const IValue& value) {
  return value.isTensor() && value.toTensor().defined() ? std::optional(value.toTensor()) : std::nullopt;
}

// Attention in one operator. The mask of its dropout follows from the draw, which forward passes to backward.
struct Attention {
  at::Tensor query, key, value;
  std::optional<at::Tensor> bias;
  double dropout;
  bool is_causal;
  IValue scale;
  Draw draw;

  double factor() const { return scale.isNone() ? 1 / std::sqrt(static_cast<double>(query.size(-1))) : scale.toDouble(); }
  at::Tensor scores() const {
    auto scores = at::matmul(query.to(at::kFloat), key.to(at::kFloat).transpose(-2, -1)) * factor();
    const auto seen = at::ones({query.size(-2), key.size(-2)}, at::kBool).tril();
    if (is_causal) scores = scores.masked_fill(seen.logical_not(), -INFINITY);
    return bias ? scores + *bias : scores;
  }
  at::Tensor weights() const { return scores().softmax(-1); }
  // Padded to whole blocks of this many rows.
  at::Tensor log_sums(int64_t block) const {
    return at::constant_pad_nd(scores().logsumexp(-1), {0, (block - query.size(-2) % block) % block});
  }
  // The factor of each weight: 0 if it is dropped.
  at::Tensor kept(const at::Tensor& weights) const {
    if (dropout == 0) return at::ones_like(weights);
    return at::empty_like(weights).bernoulli_(1 - dropout, draw.generator()) / (1 - dropout);
  }
  at::Tensor forward() const {
    const auto all = weights();
    return at::matmul(all * kept(all), value.to(at::kFloat)).to(query.scalar_type());
  }
  Stack backward(const at::Tensor& gradient, bool wants_bias) const {
    const auto all = weights(), mask = kept(all), grad = gradient.to(at::kFloat);
    const auto of_all = at::matmul(grad, value.to(at::kFloat).transpose(-2, -1)) * mask;
    const auto of_scores = all * (of_all - (of_all * all).sum(-1, true));
    const auto of_bias = wants_bias ? of_scores.sum_to_size(bias->sizes()).to(bias->scalar_type()) : at::Tensor();
    return {(at::matmul(of_scores, key.to(at::kFloat)) * factor()).to(query.scalar_type()),
            (at::matmul(of_scores.transpose(-2, -1), query.to(at::kFloat)) * factor()).to(key.scalar_type()),
            at::matmul((all * mask).transpose(-2, -1), grad).to(value.scalar_type()), of_bias};
  }
};

inline uint64_t number_in(const IValue& tensor, int64_t at) {
  const auto numbers = tensor.toTensor().reshape(-1).view(at::kLong);
  return at < numbers.numel() ? static_cast<uint64_t>(numbers[at].item<int64_t>()) : 0;
}

inline Stack lstm_cell(const Stack& s) {
  auto gates = s[0].toTensor() + s[1].toTensor();
  for (const int bias : {3, 4})
    if (const auto b = optional(s[bias])) gates = gates + *b;
  const auto c = gates.chunk(4, -1);
  const auto in = c[0].sigmoid(), forget = c[1].sigmoid(), cell = c[2].tanh(), out = c[3].sigmoid();
  const auto state = forget * s[2].toTensor() + in * cell;
  return {out * state.tanh(), state, at::cat({in, forget, cell, out}, -1)};
}

inline Stack lstm_cell_backward(const Stack& s) {
  const auto before = s[2].toTensor(), state = s[3].toTensor(), t = state.tanh(), zero = at::zeros_like(state);
  const auto c = s[4].toTensor().chunk(4, -1);
  const auto of_hidden = optional(s[0]).value_or(zero), of_state = optional(s[1]).value_or(zero);
  const auto d = of_state + of_hidden * c[3] * (1 - t * t);
  const auto gates = at::cat({d * c[2] * c[0] * (1 - c[0]), d * before * c[1] * (1 - c[1]), d * c[0] * (1 - c[2] * c[2]),
                              of_hidden * t * c[3] * (1 - c[3])}, -1);
  return {gates, d * c[1], s[5].toBool() ? gates.sum(0) : at::Tensor()};
}

// The workspace holds the three gates, the state before, and the part of the new gate that the reset gate multiplies.
inline Stack gru_cell(const Stack& s) {
  const auto with_bias = [&](int gates, int bias) {
    const auto b = optional(s[bias]);
    return (b ? s[gates].toTensor() + *b : s[gates].toTensor()).chunk(3, -1);
  };
  const auto in = with_bias(0, 3), hidden = with_bias(1, 4);
  const auto before = s[2].toTensor(), reset = (in[0] + hidden[0]).sigmoid(), update = (in[1] + hidden[1]).sigmoid();
  const auto made = (in[2] + reset * hidden[2]).tanh();
  return {made + update * (before - made), at::cat({reset, update, made, before, hidden[2]}, -1)};
}

inline Stack gru_cell_backward(const Stack& s) {
  const auto grad = s[0].toTensor();
  const auto c = s[1].toTensor().chunk(5, -1);
  const auto of_made = grad * (1 - c[1]) * (1 - c[2] * c[2]), of_update = grad * (c[3] - c[2]) * c[1] * (1 - c[1]);
  const auto of_reset = of_made * c[4] * c[0] * (1 - c[0]);
  const auto of_in = at::cat({of_reset, of_update, of_made}, -1), of_hidden = at::cat({of_reset, of_update, of_made * c[0]}, -1);
  const auto has_bias = s[2].toBool();
  return {of_in, of_hidden, grad * c[1], has_bias ? of_in.sum(0) : at::Tensor(), has_bias ? of_hidden.sum(0) : at::Tensor()};
}

// Outside of training, CUDA's operator also returns the statistics that it has normalized with.
inline Stack batch_norm(const Stack& s) {
  const auto [output, mean, deviation] = at::native_batch_norm(
      s[0].toTensor(), optional(s[1]), optional(s[2]), optional(s[3]), optional(s[4]), s[5].toBool(), s[6].toDouble(),
      s[7].toDouble());
  if (s[5].toBool()) return {output, mean, deviation};
  return {output, s[3].toTensor().clone(), (s[4].toTensor() + s[7].toDouble()).rsqrt()};
}

inline Stack dropout(const Stack& s, const Draw& draw) {
  const auto input = s[0].toTensor();
  const double kept = s[2].isNone() || s[2].toBool() ? 1 - s[1].toDouble() : 1;
  const auto mask = at::empty_like(input, at::kBool).bernoulli_(kept, draw.generator());
  return {input * mask * (kept == 0 ? 0 : 1 / kept), mask};
}

inline Stack efficient_attention(const Stack& s, const Draw& draw) {
  const Attention all{s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), optional(s[3]), s[5].toDouble(), s[6].toBool(), s[7], draw};
  if (!s[4].toBool()) return {all.forward()};
  return {all.forward(), all.log_sums(32)};
}
inline Stack efficient_attention_backward(const Stack& s, const Draw&) {
  const Draw draw{number_in(s[7], 0), number_in(s[8], 0)};
  return Attention{s[1].toTensor(), s[2].toTensor(), s[3].toTensor(), optional(s[4]), s[9].toDouble(), s[11].toBool(), s[12], draw}
      .backward(s[0].toTensor(), s[10].toBoolList()[3]);
}
// On the card the kernel itself records the draw, in one tensor of two numbers.
inline Stack flash_attention(const Stack& s, const Draw& draw) {
  const Attention all{s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), {}, s[3].toDouble(), s[4].toBool(), s[6], draw};
  const auto numbers = at::tensor({static_cast<int64_t>(draw.seed), static_cast<int64_t>(draw.offset)}, at::kLong);
  return {all.forward(), all.log_sums(1), {}, {}, {}, {}, numbers.view(at::kUInt64)};
}
inline Stack flash_attention_backward(const Stack& s, const Draw&) {
  const Draw draw{number_in(s[12], 0), number_in(s[12], 1)};
  return Attention{s[1].toTensor(), s[2].toTensor(), s[3].toTensor(), {}, s[10].toDouble(), s[11].toBool(), s[14], draw}
      .backward(s[0].toTensor(), false);
}

using Fused = Stack (*)(const Stack& arguments, const Draw& draw);

inline Fused fused(const std::string& name) {
  static const std::unordered_map<std::string, Fused> all = {
      {"aten::native_dropout", dropout},
      {"aten::_thnn_fused_lstm_cell", [](const Stack& s, const Draw&) { return lstm_cell(s); }},
      {"aten::_thnn_fused_lstm_cell_backward_impl", [](const Stack& s, const Draw&) { return lstm_cell_backward(s); }},
      {"aten::_thnn_fused_gru_cell", [](const Stack& s, const Draw&) { return gru_cell(s); }},
      {"aten::_thnn_fused_gru_cell_backward", [](const Stack& s, const Draw&) { return gru_cell_backward(s); }},
      {"aten::native_batch_norm", [](const Stack& s, const Draw&) { return batch_norm(s); }},
      {"aten::_native_batch_norm_legit", [](const Stack& s, const Draw&) { return batch_norm(s); }},
      {"aten::_scaled_dot_product_efficient_attention", efficient_attention},
      {"aten::_scaled_dot_product_efficient_attention_backward", efficient_attention_backward},
      {"aten::_scaled_dot_product_flash_attention", flash_attention},
      {"aten::_scaled_dot_product_flash_attention_backward", flash_attention_backward},
  };
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}
