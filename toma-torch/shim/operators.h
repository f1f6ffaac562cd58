// Properties of operators and tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/record_function.h>

#include <optional>
#include <vector>

#include "shim.h"

namespace toma {

// Key by which the operators of a thread come here: above autograd and autocast, once for each call of the program.
constexpr auto mode_key = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr uint32_t none = UINT32_MAX;

// Constant properties of an operator.
struct Operator {
  // Properties by name; empty for operators of other libraries.
  toma_named named = {};
  // Hash of the operator's full name.
  uint64_t number = 0;
  bool is_random = false;
  bool makes_tensors = false;
  bool takes_tensors = false;
  bool writes = false;
  // Made of other operators, which are intercepted on their own.
  bool is_composite = false;
  // Makes only views, and reads no memory.
  bool is_view = false;
  // One element for each argument.
  std::vector<bool> is_written;
  // Indices of the arguments that hold running statistics, which the operator writes although its schema does not list
  // that, and of the argument that enables these writes; none if there is no such argument.
  uint32_t mean = none, variance = none, trains = none;
  // Index of the argument with the probability of dropout between recurrent layers; none for other operators.
  uint32_t dropout = none;
};

// Registers a boxed fallback for the life of the process. Throws NotImplementedError if the key is taken, as by a
// second copy of this shim, because a process has each dispatch key once. The caller keeps the handle in a static,
// which ends with the process, since threads may include the key until then.
const c10::RegistrationHandleRAII* register_fallback(c10::DispatchKey key, c10::KernelFunction kernel, const char* name);

// Called before any thread includes the key, because the tables of operators are read without a lock.
void register_mode_key();

const Operator& operator_of(const c10::OperatorHandle& handle);

// True if a call makes a tensor that it writes in place require a gradient. Autograd does not do so for running
// statistics, which an operator writes and does not return.
bool gives_gradient(const c10::FunctionSchema& schema, const torch::jit::Stack& arguments, const at::Tensor& written);

// Operator for which an observer is called; none if it is called for something else.
std::optional<c10::OperatorHandle> handle_of(const at::RecordFunction& function);

// Visits each defined tensor in the values, with the index of its argument, and its index in a list or none.
template <class V, class F>
void each_tensor_in(const V& values, const F& body) {
  for (uint32_t at = 0; at < values.size(); ++at) {
    const c10::IValue& value = values[at];
    if (value.isTensor()) {
      if (value.toTensor().defined()) {
        body(value.toTensor(), at, none);
      }
    } else if (value.isList()) {
      const auto elements = value.toListRef();
      for (uint32_t element = 0; element < elements.size(); ++element) {
        if (elements[element].isTensor() && elements[element].toTensor().defined()) {
          body(elements[element].toTensor(), at, element);
        }
      }
    }
  }
}

// Tensor behind a pointer that torch-sys hands out.
inline const at::Tensor& tensor_of(const void* tensor) { return *static_cast<const at::Tensor*>(tensor); }

// Null if the tensor has no storage.
inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

inline c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage_of(const at::Tensor& tensor) {
  using Strong = c10::intrusive_ptr<c10::StorageImpl>;
  return tensor.has_storage() ? tensor.storage().getWeakStorageImpl() : c10::weak_intrusive_ptr<c10::StorageImpl>(Strong());
}

// Bytes of a storage; 0 if its size is symbolic.
inline uint64_t bytes_of(const c10::StorageImpl& storage) {
  return storage.sym_nbytes().is_heap_allocated() ? 0 : storage.nbytes();
}

// Bytes of a tensor's elements; 0 if it is not strided.
inline uint64_t bytes_of(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && !tensor.is_nested() ? tensor.nbytes() : 0;
}

// Bytes that an allocator takes for a request: CUDA's takes whole blocks.
inline uint64_t taken_bytes(uint64_t bytes, c10::Device device) {
  constexpr uint64_t block = 512;
  return device.is_cuda() ? (bytes + block - 1) / block * block : bytes;
}

// Bytes that an allocator has taken for a tensor's storage; 0 if it has none.
inline uint64_t taken_bytes(const at::Tensor& tensor) {
  const auto* storage = storage_of(tensor);
  return storage == nullptr ? 0 : taken_bytes(bytes_of(*storage), tensor.device());
}

// Adds a number to a hash.
inline uint64_t mixed(uint64_t sum, uint64_t number) { return (sum ^ number) * 0x9e3779b97f4a7c15 ^ sum >> 29; }

inline uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

// Alias that shares memory and version with a tensor, and belongs to no graph.
inline at::Tensor alias_of(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), true));
}

// Hash of the elements in their order; 0 for byte tensors, which kernels save for their own backward with gaps.
uint64_t hash_of(const at::Tensor& tensor);

// Recorded `toma_profile_position` of the operator that this thread recomputes; 0 if there is none.
uint64_t& repeated_position() noexcept;

// Throws an error of libtorch's without its backtrace, which would take milliseconds to write.
template <class... Words>
[[noreturn]] void fail(const Words&... words) {
  throw c10::Error(c10::str("checkpoint: ", words...), nullptr);
}

}  // namespace toma
