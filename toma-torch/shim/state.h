// What a thread is inside of: recorders, of which one may run dry, and later users of the mode key.
//
// One state per thread, in a slot that libtorch hands on to the threads of a backward. Callbacks
// find it by the slot and hold no pointer of their own.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <mutex>
#include <vector>

namespace toma {

class State;

// One user of the state, which leaves it before it ends.
struct Entry {
  virtual ~Entry() = default;
  // Entries outside of it see nothing of what happens inside.
  virtual bool is_wall() const { return false; }
  // The state that it has entered.
  std::shared_ptr<State> state;
};

// Operators and memory of the thread are observed while there are entries.
class State final : public c10::MemoryReportingInfoBase {
 public:
  // That of the calling thread; null where nothing has entered it.
  static State* current() noexcept;

  // Entries leave by identity, in any order. libtorch's own guards for slots cannot do that: one that
  // ends before a later one brings itself back and loses the other.
  static void enter(Entry& entry);
  static void leave(Entry& entry) noexcept;

  // Each entry of a type, the innermost first, as far as the innermost wall.
  template <class T, class F>
  void each(F body) const {
    const std::lock_guard<std::mutex> held(lock);
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      if (auto* found = dynamic_cast<T*>(*entry)) {
        body(*found);
      }
      if ((*entry)->is_wall()) {
        return;
      }
    }
  }

 private:
  // Of accelerators. What libtorch tells of the CPU lacks the end of all that lived before, and it warns of each.
  void reportMemoryUsage(void* data, int64_t bytes, size_t, size_t, c10::Device device) override;
  bool memoryProfilingEnabled() const override { return false; }

  // A backward on a device's thread reads what its caller changes.
  mutable std::mutex lock;
  std::vector<Entry*> entries;
  at::CallbackHandle observer = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace toma
