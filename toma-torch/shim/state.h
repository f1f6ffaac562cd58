// What a thread is inside of: recorders, of which one may run dry, and later users of the mode key.
//
// One state per thread, in a slot that libtorch hands on to the threads of a backward. Callbacks
// find it by the slot and hold no pointer of their own.
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

// Operators and memory of the thread are observed while there are entries.
class State final : public c10::MemoryReportingInfoBase, public Counting {
 public:
  // Entries leave by identity, in any order. libtorch's own guards for slots cannot do that: one that
  // ends before a later one brings itself back and loses the other.
  static void enter(Recorder& entry);
  static void leave(Recorder& entry) noexcept;

  // Each entry of the calling thread, the innermost first, as far as the innermost dry run: what is outside of it
  // sees nothing of what happens inside.
  static void each(c10::function_ref<void(Recorder&)> body);

 private:
  // Of accelerators. What libtorch tells of the CPU lacks the end of all that lived before, and it warns of each.
  void reportMemoryUsage(void* data, int64_t bytes, size_t, size_t reserved, c10::Device device) override;
  void reportOutOfMemory(int64_t bytes, size_t, size_t, c10::Device device) override;
  bool memoryProfilingEnabled() const override { return false; }

  // A backward on a device's thread reads what its caller changes.
  std::mutex lock;
  std::vector<Recorder*> entries;
  at::CallbackHandle observer = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace toma
