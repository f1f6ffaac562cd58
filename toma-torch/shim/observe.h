// What a step did, written down in the order in which it happened. Rust reads it when the step is over, and
// makes sense of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "shim.h"
#include "state.h"

namespace toma {

struct Recorder final : Entry {
  // What has a name has no address.
  void write(toma_event event, const char* name, c10::ArrayRef<int64_t> values = {}) noexcept;
  void write(toma_event_kind kind, const void* data, uint64_t bytes, c10::Device device, c10::ArrayRef<int64_t> values = {}) noexcept;

  std::mutex lock;
  std::vector<toma_event> events;
  std::vector<int64_t> numbers;
  std::string names;
  // Something was not written down, for want of memory.
  bool torn = false;
};

// While one of these lives, nothing that this thread does is recorded: it is our own doing. It counts what
// was allocated meanwhile, and the most of it that lived at once.
struct Unobserved {
  Unobserved() noexcept;
  ~Unobserved();
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

  int64_t allocated = 0;
  int64_t peak = 0;
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

}  // namespace toma
