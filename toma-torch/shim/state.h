// State of a thread: its recorders, of which one may be a dry run, and later users of the mode key.
//
// Each thread has one state, in a slot that libtorch passes on to the threads of a backward. Callbacks find the state
// by the slot and hold no pointer of their own.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <mutex>
#include <vector>

#include "meter.h"

namespace toma {

struct Recorder;

// Observes operators and memory of the thread while there are entries.
class State final : public c10::MemoryReportingInfoBase, public Counting {
 public:
  // Entries leave by identity, in any order. libtorch's own guards for slots cannot do that: a guard that ends before a
  // later one restores its own state and loses the other.
  static void enter(Recorder& entry);
  static void leave(Recorder& entry) noexcept;

  // Visits each entry of the calling thread, the innermost first, up to the innermost dry run: outer entries observe
  // nothing inside a dry run.
  static void each(c10::function_ref<void(Recorder&)> body);

 private:
  // For accelerators. libtorch's reports for the CPU lack the end of blocks from before, and it warns about each.
  void reportMemoryUsage(void* data, int64_t bytes, size_t, size_t reserved, c10::Device device) override;
  void reportOutOfMemory(int64_t bytes, size_t, size_t, c10::Device device) override;
  bool memoryProfilingEnabled() const override { return false; }

  // A backward on the thread of a device reads entries that its caller changes.
  std::mutex lock;
  std::vector<Recorder*> entries;
  at::CallbackHandle observer = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace toma
