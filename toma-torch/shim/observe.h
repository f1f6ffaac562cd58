// What a step did, written down in the order in which it happened. Rust reads it when the step is over.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "shim.h"
#include "state.h"

namespace toma {

// Events of one step: of the leaves among the operators, of the Nodes of backward, and of memory.
class Recorder final : public Entry {
 public:
  void begin(toma_event_kind kind, const std::string& name) noexcept;
  void end(toma_event_kind kind) noexcept;
  // Memory is known by its address. What lived before has no birth: a use of it tells of it.
  void born(const void* data, uint64_t bytes, c10::Device device) noexcept;
  void died(const void* data, uint64_t bytes, c10::Device device) noexcept;
  void used(const at::TensorBase& tensor, toma_access access) noexcept;
  void attribute(const std::string& name, c10::ArrayRef<int64_t> values) noexcept;

  // Read by Rust, when nothing is written any more.
  std::vector<toma_event> events;
  std::vector<int64_t> shapes;
  std::vector<std::string> names;
  // Something was not written down, for want of memory.
  bool torn = false;

 private:
  template <class F>
  void write(F body) noexcept;
  toma_event event(toma_event_kind kind, uint64_t subject) const;
  uint64_t existing(const void* data, uint64_t bytes, c10::Device device);
  uint64_t number(const std::string& name);

  std::mutex lock;
  std::unordered_map<std::string, uint64_t> numbers;
  std::unordered_map<const void*, uint64_t> living;
  uint64_t storages = 0;
};

// While one of these lives, nothing that this thread does is recorded: it is our own doing. It counts what
// was allocated meanwhile, and the most of it that lived at once.
class Unobserved {
 public:
  Unobserved() noexcept;
  ~Unobserved();
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

  int64_t allocated = 0;
  int64_t peak = 0;

 private:
  Unobserved* outer;
};

// The leaf that this thread is in; empty outside of any, and where nothing records. It lives as long as the
// operator.
const char* leaf_name() noexcept;

// Each tensor in an argument or a result, also those in lists.
template <class F>
void each_tensor(const c10::IValue& value, F body) {
  if (value.isTensor()) {
    if (const auto& tensor = value.toTensor(); tensor.defined()) {
      body(tensor);
    }
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      each_tensor(element, body);
    }
  }
}

// The storage's memory, also of those that must not be touched.
inline const void* address_of(const at::TensorBase& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get() : nullptr;
}

}  // namespace toma
