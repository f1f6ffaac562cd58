// Events of a step, recorded in the order in which they happened. Rust reads and interprets them when the step has
// ended.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

#include "guard.h"
#include "shim.h"
#include "state.h"

namespace toma {

struct Dry;

struct Recorder {
  // An event with a name has no address.
  void write(toma_event event, const char* name = nullptr, c10::ArrayRef<int64_t> values = {}) noexcept;

  std::mutex lock;
  std::vector<toma_event> events;
  std::vector<int64_t> numbers;
  std::string names;
  // True if an event is missing because memory ran out.
  bool torn = false;
  // State that it has entered, and leaves before it ends.
  std::shared_ptr<State> state;
  // Set if the recording is a dry run.
  std::shared_ptr<Dry> dry;
};

// While one of these is alive, allocations of this thread are ours: they are neither recorded nor refused. It counts
// their bytes and the peak.
struct Unobserved : Exempt {
  Unobserved() noexcept { of_thread = this; }
  ~Unobserved() { of_thread = nullptr; }

  static inline thread_local Unobserved* of_thread = nullptr;
  int64_t allocated = 0;
  int64_t peak = 0;
};

at::RecordFunctionCallback observer_of_operators();

// Reports a block of memory to the recorders of this thread; `bytes` is negative when it is freed.
void report_block(void* data, int64_t bytes, c10::Device device) noexcept;

// Report a block of a GPU, with negative bytes when it is freed, and a failed allocation to the watcher.
void report_gpu_block(void* data, int64_t bytes, size_t reserved, c10::Device device) noexcept;
void report_refused(int64_t bytes, c10::Device device) noexcept;
// Ends listeners of this thread before the thread ends: a program's own thread-locals may free memory later, when
// libtorch has destroyed objects that its listeners use.
void forget_with_thread();
// True if a recording has put it into the slot of a thread.
bool is_of_profile(const c10::DebugInfoBase* info) noexcept;

// Hash of the memory of a dry tensor, if the program itself has written to it.
std::optional<uint64_t> written_by_host(const c10::StorageImpl& storage) noexcept;

// Name of the leaf operator that this thread is in; empty outside of any, and if nothing observes. It lives as long as
// the operator.
const char* leaf_name() noexcept;

// Number that an operator shares with the node of its gradient. The thread is in the upper bits, so that numbers of two
// threads differ; 0 is no node.
uint64_t node_of(uint64_t thread, int64_t sequence) noexcept;

// Visits each tensor in an argument or a result, also in lists.
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
