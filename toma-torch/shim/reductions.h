// Scratch of reductions on CUDA: if few results have many inputs, blocks of threads leave partial results in memory.
//
// Source: `setReduceConfig` and `global_memory_size` in ATen/native/cuda/Reduce.cuh of PyTorch 2.11.0.
#pragma once

#include <ATen/AccumulateType.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/ReduceOpsUtils.h>

#include <algorithm>
#include <array>

#include "runtime.h"

namespace toma::reductions {

// Processors of a device and threads of each, by CUDA's attribute numbers; 0 without CUDA.
struct Processors {
  int64_t count, threads_of_each;

  explicit Processors(c10::Device device) : count(attribute(device, 16)), threads_of_each(attribute(device, 39)) {}

 private:
  static int64_t attribute(c10::Device device, int number) {
    static const auto ask = function_of_cuda<int(int*, int, int)>("cudaDeviceGetAttribute");
    int value = 0;
    return ask != nullptr && ask(&value, number, device.index()) == 0 ? value : 0;
  }
};

inline int64_t power_of_two(int64_t most) {
  int64_t power = 1;
  while (power * 2 <= most) {
    power *= 2;
  }
  return power;
}

// Number of results that a thread works on: one load reads the elements of all of them.
inline int64_t results_of_thread(const at::TensorIterator& iter) {
  const auto strides = iter.strides(iter.noutputs());
  const auto element = iter.element_size(iter.noutputs());
  const auto fastest = static_cast<size_t>(iter.num_reduce_dims());
  int64_t width = 4;
  const auto divides = [&](int64_t number) {
    while (number % width != 0) {
      width /= 2;
    }
  };
  divides(iter.shape()[fastest]);
  for (size_t at = 0; at < strides.size(); ++at) {
    divides(at == fastest ? 0 : strides[at] / element);
  }
  return width;
}

// `partial`: bytes of a partial sum of one thread.
inline int64_t scratch_bytes(const at::TensorIterator& iter, int64_t partial, const Processors& processors) {
  constexpr int64_t most_threads = 512, warp = 32, least_values = 16, most_values = 256;
  const auto results = iter.num_output_elements(), inputs = iter.numel() / std::max<int64_t>(results, 1);
  const auto strides = iter.strides(iter.ntensors() - 1);
  const auto of_results = static_cast<size_t>(iter.num_reduce_dims());
  const auto along_inputs = of_results == strides.size() || strides[0] < strides[of_results];
  const auto is_dense = !strides.empty() && strides[along_inputs ? 0 : of_results] == iter.element_size(iter.ntensors() - 1);
  const auto wide = is_dense && !along_inputs ? results_of_thread(iter) : 1;
  const auto loads = is_dense && along_inputs && inputs >= 128 && of_results == 1 ? inputs / 4 : inputs;
  const auto across = along_inputs ? loads : results / wide, along = along_inputs ? results : inputs;

  const auto most = most_threads / wide;
  const auto height = std::min(power_of_two(std::min(along, most)), most / std::min(power_of_two(std::min(across, most)), warp));
  const auto width = std::min(power_of_two(std::min(across, most)), most / height);
  const auto values = [&](int64_t step) { return (inputs + step - 1) / step; };
  const auto step = along_inputs ? width : 1;
  const auto is_split = values(step) >= std::min(height * least_values, most_values);
  const auto of_thread = values(is_split ? step * height : step);
  const auto results_of_block = (along_inputs ? 1 : width) * (is_split ? 1 : height);
  const auto grid = (results / wide + results_of_block - 1) / results_of_block;
  const auto target = processors.count * (processors.threads_of_each / (width * height));
  if (!is_split || of_thread < most_values || grid > target) {
    return 0;
  }
  const auto up = [](int64_t number, int64_t by) { return (number + by - 1) / by; };
  const auto blocks = std::max(std::min(up(target, grid), up(of_thread, least_values)), up(of_thread, most_values));
  return blocks > 1 ? partial * results * blocks * (along_inputs ? 1 : width * wide) : 0;
}

// For an operator on Meta with the argument `self`, and optionally `dim`, `keepdim` and `dtype`.
inline int64_t scratch_bytes(const c10::FunctionSchema& schema, const torch::jit::Stack& arguments, c10::Device device) {
  const auto argument = [&](const char* name) {
    const auto at = schema.argumentIndexWithName(name);
    return at ? arguments[static_cast<size_t>(*at)] : c10::IValue();
  };
  const auto& self = arguments[0].toTensor();
  const auto type = argument("dtype").toOptional<at::ScalarType>().value_or(
      at::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type());
  if (self.numel() == 0 || !schema.argumentIndexWithName("self")) {
    return 0;
  }
  const auto dims = argument("dim").isIntList() ? argument("dim").toIntVector() : std::vector<int64_t>();
  const auto keeps = argument("keepdim");
  at::Tensor result(at::detail::empty_meta({0}, type));
  const auto iter = at::native::make_reduction("sum", result, self, dims, keeps.isBool() && keeps.toBool(), self.scalar_type(), type);
  const auto partial = c10::elementSize(at::toAccumulateType(type, true));
  return scratch_bytes(iter, static_cast<int64_t>(partial), Processors(device));
}

}  // namespace toma::reductions
