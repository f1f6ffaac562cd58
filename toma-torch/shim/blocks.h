// Live blocks of the counting allocator, by address. The data of each block are separate from its memory.
//
// # Why
//
// A header in front of a block could not be distinguished from the bytes in front of a foreign block. So a table holds
// the data: c10's own hash map, in 64 shards. A block costs 18 ns more.
#pragma once

#include <c10/util/flat_hash_map.h>

#ifndef _WIN32
#include <pthread.h>
#endif

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "shim.h"

namespace toma {

// Held for a few nanoseconds, so waiting threads spin. A mutex takes three times as long without contention.
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

// A larger size is a mistake. The bytes and two bits fit into one number.
constexpr uint64_t most_bytes = (uint64_t{1} << 62) - 1;

// A live block.
struct Block {
  uint64_t bytes : 62;
  // Made while exempt, and so not counted. A bit, because there is one block for each tensor.
  uint64_t is_exempt : 1;
  // The storage is evicted, and its block is kept in place: see `uncount_in_place`.
  uint64_t is_aside : 1;
  // Owner that the watcher returned; 0 for none.
  uint64_t owner;
};

// Watcher of blocks; null for none.
const toma_watcher* watcher() noexcept;

// Table in shards, so that threads rarely wait for each other.
class Blocks {
 public:
  // Returns the previous block at the same address, with 0 bytes if there was none. Throws if memory runs out.
  Block insert(void* data, Block block) {
    auto& shard = shard_of(data);
    const std::lock_guard<Lock> held(shard.lock);
    const auto before = std::exchange(shard.blocks[data], block);
    ++shard.inserted;
    return before;
  }

  // Returns the block, with 0 bytes if there is none.
  Block remove(void* data) {
    auto& shard = shard_of(data);
    const std::lock_guard<Lock> held(shard.lock);
    const auto found = shard.blocks.find(data);
    if (found == shard.blocks.end()) {
      return {};
    }
    const auto block = found->second;
    shard.blocks.erase(found);
    return block;
  }

  // Returns the block at an address, with 0 bytes if there is none.
  Block at(void* data) {
    auto& shard = shard_of(data);
    const std::lock_guard<Lock> held(shard.lock);
    const auto found = shard.blocks.find(data);
    return found == shard.blocks.end() ? Block{} : found->second;
  }

  // Visits every live block. Threads of each shard wait in turn, so `body` must neither allocate nor free.
  template <class F>
  void each(const F& body) {
    for (auto& shard : shards) {
      const std::lock_guard<Lock> held(shard.lock);
      for (const auto& [data, block] : shard.blocks) {
        body(data, block);
      }
    }
  }

  // Number of blocks inserted so far.
  uint64_t inserted() {
    uint64_t sum = 0;
    for (auto& shard : shards) {
      const std::lock_guard<Lock> held(shard.lock);
      sum += shard.inserted;
    }
    return sum;
  }

  // Ensures that a child of fork finds no lock held by a thread that it lacks. For one table in a process.
  void survive_forks() {
#ifndef _WIN32
    static Blocks* all;
    all = this;
    const auto unlock = [] { all->each_lock(&Lock::unlock); };
    pthread_atfork([] { all->each_lock(&Lock::lock); }, unlock, unlock);
#endif
  }

 private:
  struct alignas(64) Shard {
    Lock lock;
    ska::flat_hash_map<void*, Block> blocks;
    // Number of blocks inserted so far.
    uint64_t inserted = 0;
  };

  // Uses the upper six bits of the product whose next bits select the slot in the table.
  Shard& shard_of(const void* data) {
    return shards[(reinterpret_cast<uintptr_t>(data) >> 6) * 0x9e3779b97f4a7c15 >> 58];
  }

  void each_lock(void (Lock::*change)()) {
    for (auto& shard : shards) {
      (shard.lock.*change)();
    }
  }

  std::array<Shard, 64> shards;
};

}  // namespace toma
