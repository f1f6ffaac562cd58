// The one state of a thread.

#include "state.h"

#include <algorithm>

#include "guard.h"
#include "observe.h"

namespace toma {

// The first slot is reserved for libtorch's tests, so no other part of libtorch uses it. In the second one libtorch
// looks for observers of memory.
constexpr auto state_slot = c10::DebugInfoKind::TEST_INFO_2, profiler = c10::DebugInfoKind::PROFILER_STATE;

// State of the calling thread; null if nothing has entered.
static State* current() noexcept { return static_cast<State*>(c10::ThreadLocalDebugInfo::get(state_slot)); }

void forget_with_thread() {
  struct Forget {
    ~Forget() { c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(nullptr); }
  };
  [[maybe_unused]] static thread_local const Forget forget;
}

void State::enter(Recorder& entry) {
  // State that this thread has pushed. When a guard of other code ends, it removes from the thread everything that was
  // pushed after it, although our entries may still be alive.
  auto* pushed = of_thread<std::weak_ptr<State>>();
  auto state = pushed == nullptr ? nullptr : pushed->lock();
  if (state == nullptr || current() != state.get()) {
    // libtorch's profiler assumes that the object in its slot is its own.
    const auto* below = c10::ThreadLocalDebugInfo::get(profiler);
    if (below != nullptr && !is_of_profile(below)) {
      throw c10::NotImplementedError("memory of this thread is being profiled by libtorch", nullptr);
    }
    state = state == nullptr ? std::make_shared<State>() : state;
    if (pushed != nullptr) {
      *pushed = state;
    }
    c10::ThreadLocalDebugInfo::_push(state_slot, state);
    c10::ThreadLocalDebugInfo::_push(profiler, state);
    forget_with_thread();
  }
  const std::lock_guard<std::mutex> held(state->lock);
  state->observer = state->entries.empty() ? at::addThreadLocalCallback(observer_of_operators()) : state->observer;
  state->entries.push_back(&entry);
  entry.state = state;
}

void State::leave(Recorder& entry) noexcept {
  const auto state = std::move(entry.state);
  const std::lock_guard<std::mutex> held(state->lock);
  auto& entries = state->entries;
  entries.erase(std::find(entries.begin(), entries.end(), &entry));
  if (!entries.empty()) {
    return;
  }
  at::removeCallback(state->observer);
  try {
    if (current() == state.get()) {
      c10::ThreadLocalDebugInfo::_pop(profiler);
      c10::ThreadLocalDebugInfo::_pop(state_slot);
    }
  } catch (const std::exception&) {
    // Other code has pushed after us: an empty state stays below, and the next entry finds it.
  }
}

void State::each(c10::function_ref<void(Recorder&)> body) {
  auto* state = current();
  if (state == nullptr) {
    return;
  }
  const std::lock_guard<std::mutex> held(state->lock);
  for (auto entry = state->entries.rbegin(); entry != state->entries.rend(); ++entry) {
    body(**entry);
    if ((*entry)->dry != nullptr) {
      return;
    }
  }
}

// Also does the work of a `Reports` that a recording has put into this slot before, and that receives nothing
// meanwhile.
void State::reportMemoryUsage(void* data, int64_t bytes, size_t, size_t reserved, c10::Device device) {
  change(bytes, device);
  report_block(data, bytes, device);
  report_gpu_block(data, bytes, reserved, device);
}

void State::reportOutOfMemory(int64_t bytes, size_t, size_t, c10::Device device) { report_refused(bytes, device); }

}  // namespace toma
