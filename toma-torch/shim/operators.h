// What is asked of operators and tensors, beside running them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

#include "shim.h"

namespace toma {

// Where the operators of a region come in: above autograd and autocast, once for each call of the program.
constexpr auto mode_key = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr uint32_t none = UINT32_MAX;

// What is always true of an operator.
struct Operator {
  // By its name; nothing of those of other libraries.
  toma_named named = {};
  // Of its own.
  uint64_t number = 0;
  bool is_random = false;
  bool makes_tensors = false;
  bool takes_tensors = false;
  bool writes = false;
  // Made of other operators, which come by themselves.
  bool is_composite = false;
  // Makes views alone, and looks at no memory.
  bool is_view = false;
  // One for each argument.
  std::vector<bool> is_written;
  // The arguments that hold running statistics, which it writes without saying so, and the one that says whether it
  // does; none where it has none.
  uint32_t mean = none, variance = none, trains = none;
};

// Registers a boxed fallback for the life of the process. Throws NotImplementedError where the key is taken, as by a
// second copy of this shim: dispatch keys are one for each process. The caller keeps the handle in a static, which ends
// with the process: threads may include the key until then.
const c10::RegistrationHandleRAII* register_fallback(c10::DispatchKey key, c10::KernelFunction kernel, const char* name);

// Once, before a thread includes the key: the tables of operators are read without a lock.
void register_mode_key();

const Operator& operator_of(const c10::OperatorHandle& handle);

// Each defined tensor in the values: its argument, and its place in a list or none.
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

// Null where it has none.
inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

inline c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage_of(const at::Tensor& tensor) {
  using Strong = c10::intrusive_ptr<c10::StorageImpl>;
  return tensor.has_storage() ? tensor.storage().getWeakStorageImpl() : c10::weak_intrusive_ptr<c10::StorageImpl>(Strong());
}

// Bytes of a storage; 0 where its size is a symbol.
inline uint64_t bytes_of(const c10::StorageImpl& storage) {
  return storage.sym_nbytes().is_heap_allocated() ? 0 : storage.nbytes();
}

// Bytes of a tensor's elements; 0 where it is not strided.
inline uint64_t bytes_of(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && !tensor.is_nested() ? tensor.nbytes() : 0;
}

// The bytes that an allocator gives for so many: CUDA's whole blocks.
inline uint64_t taken_bytes(uint64_t bytes, c10::Device device) {
  constexpr uint64_t block = 512;
  return device.is_cuda() ? (bytes + block - 1) / block * block : bytes;
}

// The bytes that an allocator has given for a tensor's storage; 0 where it has none.
inline uint64_t taken_bytes(const at::Tensor& tensor) {
  const auto* storage = storage_of(tensor);
  return storage == nullptr ? 0 : taken_bytes(bytes_of(*storage), tensor.device());
}

inline uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

// Shares memory and version with a tensor, and leads into no graph.
inline at::Tensor alias_of(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), true));
}

// Of its elements, in their order; 0 for bytes, which are what kernels leave for their own backward, with gaps.
uint64_t hash_of(const at::Tensor& tensor);

// Where the operator that this thread repeats was recorded, as `toma_profile_position` says; 0 where it repeats none.
uint64_t& repeated_position() noexcept;

// Raises an error of libtorch's without its backtrace, which takes milliseconds to write.
template <class... Words>
[[noreturn]] void fail(const Words&... words) {
  throw c10::Error(c10::str("checkpoint: ", words...), nullptr);
}

}  // namespace toma
