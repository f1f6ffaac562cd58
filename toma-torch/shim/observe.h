// What a step did, written down in the order in which it happened. Rust reads it when the step is over, and
// makes sense of it.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

#include "guard.h"
#include "shim.h"
#include "state.h"

namespace toma {

struct Dry;

struct Recorder {
  // What has a name has no address.
  void write(toma_event event, const char* name = nullptr, c10::ArrayRef<int64_t> values = {}) noexcept;

  std::mutex lock;
  std::vector<toma_event> events;
  std::vector<int64_t> numbers;
  std::string names;
  // Something was not written down, for want of memory.
  bool torn = false;
  // The state that it has entered, which it leaves before it ends.
  std::shared_ptr<State> state;
  // What is recorded is a dry run.
  std::shared_ptr<Dry> dry;
};

// While one of these lives, nothing that this thread allocates is recorded or refused: it is our own doing. It
// counts that, and the most of it that lived at once.
struct Unobserved : Exempt {
  Unobserved() noexcept { of_thread = this; }
  ~Unobserved() { of_thread = nullptr; }

  static inline thread_local Unobserved* of_thread = nullptr;
  int64_t allocated = 0;
  int64_t peak = 0;
};

at::RecordFunctionCallback observer_of_operators();

// Tells the recorders of this thread of a block of memory, with fewer than no bytes when it is given back.
void tell(void* data, int64_t bytes, c10::Device device) noexcept;

// Tells the watcher of a block of a GPU's, with fewer than no bytes when it is given back, and that one lacks bytes.
void tell_of_gpu(void* data, int64_t bytes, size_t reserved, c10::Device device) noexcept;
void tell_of_lack(int64_t bytes, c10::Device device) noexcept;
// Listeners of this thread end before the thread does: a program's own thread-locals may free memory later, when libtorch has
// destroyed what it still asks.
void forget_with_thread();
// Whether it is what a recording has put into a thread's slot.
bool is_of_profile(const c10::DebugInfoBase* info) noexcept;

// Whether the program itself has written to the memory of a dry tensor, by its address.
bool is_written_by_host(const at::DataPtr& data) noexcept;

// The leaf that this thread is in; empty outside of any, and where nothing records. It lives as long as the
// operator.
const char* leaf_name() noexcept;

// Each tensor in an argument or a result, also those in lists.
template <class F>
void each_tensor(const c10::IValue& value, const F& body) {
  if (value.isTensor() && value.toTensor().defined()) {
    body(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      each_tensor(element, body);
    }
  }
}

}  // namespace toma

struct toma_recorder final : toma::Recorder {};
