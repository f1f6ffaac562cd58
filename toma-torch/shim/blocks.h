// The living blocks of the counting allocator, by address: what is known of each stands here, beside
// the memory.
#pragma once

#ifndef _WIN32
#include <pthread.h>
#endif

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

namespace toma {

// Held for a few nanoseconds, so threads that meet spin. A mutex takes three times as long where they
// do not meet.
class Lock {
 public:
  void lock() {
    while (held.exchange(true, std::memory_order_acquire)) {
      std::this_thread::yield();
    }
  }

  void unlock() { held.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held{false};
};

// What is known of a block. Address 0 is no block.
struct Block {
  void* data;
  uint64_t bytes;
};

// One lock and one table of open addressing with linear probing. At most half of it is used, so a
// search ends after two steps or so.
class alignas(64) Shard {
 public:
  Lock lock;
  // Blocks so far.
  uint64_t inserted = 0;

  // Returns the bytes of a block that was there at the same address; throws where there is no memory.
  uint64_t insert(Block block, uint64_t hash) {
    if (2 * (used + 1) > size) {
      grow();
    }
    auto& slot = slots[find(block.data, hash)];
    const auto before = slot.bytes;
    used += slot.data == nullptr ? 1 : 0;
    slot = block;
    ++inserted;
    return before;
  }

  // Returns its bytes, or 0 where there is none.
  uint64_t remove(void* data, uint64_t hash) {
    auto gap = used == 0 ? 0 : find(data, hash);
    if (used == 0 || slots[gap].data == nullptr) {
      return 0;
    }
    const auto bytes = slots[gap].bytes;
    --used;
    // Blocks behind it move up, unless the gap is before their home: no search meets a gap then.
    for (auto at = next(gap); slots[at].data != nullptr; at = next(at)) {
      if (((at - home(hash_of(slots[at].data))) & (size - 1)) >= ((at - gap) & (size - 1))) {
        slots[gap] = slots[at];
        gap = at;
      }
    }
    slots[gap] = {};
    return bytes;
  }

  static uint64_t hash_of(const void* data) {
    // Blocks begin at multiples of 64; the product mixes the rest into the upper bits.
    return (reinterpret_cast<uintptr_t>(data) >> 6) * 0x9e3779b97f4a7c15;
  }

 private:
  size_t home(uint64_t hash) const { return (hash >> 16) & (size - 1); }
  size_t next(size_t at) const { return (at + 1) & (size - 1); }

  // Where it is, or would be.
  size_t find(const void* data, uint64_t hash) const {
    auto at = home(hash);
    while (slots[at].data != nullptr && slots[at].data != data) {
      at = next(at);
    }
    return at;
  }

  void grow() {
    auto* const before = slots;
    const auto before_size = size;
    const auto now_size = size == 0 ? 64 : 2 * size;
    auto* const now = static_cast<Block*>(std::calloc(now_size, sizeof(Block)));
    if (now == nullptr) {
      throw std::bad_alloc();
    }
    slots = now;
    size = now_size;
    for (size_t at = 0; at < before_size; ++at) {
      if (before[at].data != nullptr) {
        slots[find(before[at].data, hash_of(before[at].data))] = before[at];
      }
    }
    std::free(before);
  }

  // Of a power of two; never given back.
  Block* slots = nullptr;
  size_t size = 0;
  size_t used = 0;
};

// Shards, so that threads rarely wait for each other.
class Blocks {
 public:
  uint64_t insert(Block block) {
    const auto hash = Shard::hash_of(block.data);
    auto& shard = shard_of(hash);
    const std::lock_guard<Lock> held(shard.lock);
    return shard.insert(block, hash);
  }

  uint64_t remove(void* data) {
    const auto hash = Shard::hash_of(data);
    auto& shard = shard_of(hash);
    const std::lock_guard<Lock> held(shard.lock);
    return shard.remove(data, hash);
  }

  // Blocks so far.
  uint64_t inserted() {
    uint64_t sum = 0;
    each(*this, [&](Shard& shard) {
      const std::lock_guard<Lock> held(shard.lock);
      sum += shard.inserted;
    });
    return sum;
  }

  // A child of fork finds no lock held by a thread that it does not have. Of one table in a process.
  void survive_forks() {
#ifndef _WIN32
    static Blocks* all;
    all = this;
    pthread_atfork(
        [] { each(*all, [](Shard& shard) { shard.lock.lock(); }); },
        [] { each(*all, [](Shard& shard) { shard.lock.unlock(); }); },
        [] { each(*all, [](Shard& shard) { shard.lock.unlock(); }); });
#endif
  }

 private:
  Shard& shard_of(uint64_t hash) { return shards[hash >> 58]; }

  template <class F>
  static void each(Blocks& blocks, F f) {
    for (auto& shard : blocks.shards) {
      f(shard);
    }
  }

  std::array<Shard, 64> shards;
};

}  // namespace toma
