// The living blocks of the counting allocator, by address: what is known of each stands here, beside
// the memory.
//
// # Why
//
// A header in front of a block cannot be told from the bytes in front of a foreign block. So what is known
// stands in a table: c10's own hash map, in 64 shards. A block costs 18 ns more.
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

// A block of more is a mistake. Its bytes and two bits make a number.
constexpr uint64_t most_bytes = (uint64_t{1} << 62) - 1;

// A living block.
struct Block {
  uint64_t bytes : 62;
  // Made while exempt, and so not counted. In a bit, because there is one of these for each tensor.
  uint64_t is_exempt : 1;
  // Its storage has left the device: see `lay_aside`.
  uint64_t is_aside : 1;
  // What a watcher has answered; 0 for nothing.
  uint64_t owner;
};

// What is told of blocks; null for none.
const toma_watcher* watcher() noexcept;

// Shards, so that threads rarely wait for each other.
class Blocks {
 public:
  // Returns a block that was there at the same address, of no bytes where there was none; throws where there
  // is no memory.
  Block insert(void* data, Block block) {
    auto& shard = shard_of(data);
    const std::lock_guard<Lock> held(shard.lock);
    const auto before = std::exchange(shard.blocks[data], block);
    ++shard.inserted;
    return before;
  }

  // Returns the block, of no bytes where there is none.
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

  // The block at an address, of no bytes where there is none.
  Block at(void* data) {
    auto& shard = shard_of(data);
    const std::lock_guard<Lock> held(shard.lock);
    const auto found = shard.blocks.find(data);
    return found == shard.blocks.end() ? Block{} : found->second;
  }

  // Every living block, while each shard's threads wait in turn: the body must neither allocate nor free.
  template <class F>
  void each(const F& body) {
    for (auto& shard : shards) {
      const std::lock_guard<Lock> held(shard.lock);
      for (const auto& [data, block] : shard.blocks) {
        body(data, block);
      }
    }
  }

  // Blocks so far.
  uint64_t inserted() {
    uint64_t sum = 0;
    for (auto& shard : shards) {
      const std::lock_guard<Lock> held(shard.lock);
      sum += shard.inserted;
    }
    return sum;
  }

  // A child of fork finds no lock held by a thread that it does not have. Of one table in a process.
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
    // Blocks so far.
    uint64_t inserted = 0;
  };

  // By the upper six bits of the product by which the table finds its place: the table takes the next.
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
