// The one state of a thread.

#include "state.h"

#include <algorithm>

namespace toma {
namespace {

// Left to libtorch's tests, so that no other part of libtorch takes it.
constexpr auto slot = c10::DebugInfoKind::TEST_INFO_2;

}  // namespace

State* State::current() noexcept { return static_cast<State*>(c10::ThreadLocalDebugInfo::get(slot)); }

void State::enter(const std::shared_ptr<Entry>& entry) {
  // The state that this thread has pushed. A guard of other code that ends takes it off the thread
  // together with what was pushed above that guard, although entries of it still live.
  static thread_local std::weak_ptr<State> pushed;
  entry->state = pushed.lock();
  if (entry->state == nullptr) {
    pushed = entry->state = std::make_shared<State>();
  }
  if (current() != entry->state.get()) {
    c10::ThreadLocalDebugInfo::_push(slot, entry->state);
  }
  const std::lock_guard<std::mutex> held(entry->state->lock);
  entry->state->entries.push_back(entry);
}

// Outside of the lock the entry is dropped, which may ask the state.
void State::leave(Entry& entry) noexcept {
  std::shared_ptr<Entry> left;
  const auto state = entry.state;
  {
    const std::lock_guard<std::mutex> held(state->lock);
    auto& entries = state->entries;
    const auto is_it = [&](const auto& other) { return other.get() == &entry; };
    const auto found = std::find_if(entries.begin(), entries.end(), is_it);
    left = std::move(*found);
    entries.erase(found);
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
