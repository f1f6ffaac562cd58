// The one state of a thread.

#include "state.h"

namespace toma {
namespace {

// Left to libtorch's tests, so that no other part of libtorch takes it.
constexpr auto slot = c10::DebugInfoKind::TEST_INFO_2;

}  // namespace

State* State::current() noexcept { return static_cast<State*>(c10::ThreadLocalDebugInfo::get(slot)); }

std::shared_ptr<State> State::enter(std::shared_ptr<Entry> entry) {
  // The state that this thread has pushed. A guard of other code that ends takes it off the thread
  // together with what was pushed above that guard, although entries of it still live.
  static thread_local std::weak_ptr<State> pushed;
  auto state = pushed.lock();
  if (state == nullptr) {
    pushed = state = std::make_shared<State>();
  }
  {
    const std::lock_guard<std::mutex> held(state->lock);
    state->entries.push_back(std::move(entry));
  }
  if (current() != state.get()) {
    c10::ThreadLocalDebugInfo::_push(slot, state);
  }
  return state;
}

void State::leave(const std::shared_ptr<State>& state, const Entry* entry) noexcept {
  {
    const std::lock_guard<std::mutex> held(state->lock);
    auto& entries = state->entries;
    for (auto at = entries.begin(); at != entries.end(); ++at) {
      if (at->get() == entry) {
        entries.erase(at);
        break;
      }
    }
    if (!entries.empty()) {
      return;
    }
  }
  try {
    if (current() == state.get()) {
      c10::ThreadLocalDebugInfo::_pop(slot);
    }
  } catch (const std::exception&) {
    // Other code has pushed above it: an empty state stays below, which the next entry finds.
  }
}

}  // namespace toma
