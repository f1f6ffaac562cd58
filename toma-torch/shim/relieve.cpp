// A CUDA allocator that evicts storages where libtorch's would fail, and that refuses allocations beyond a budget, as
// the CPU allocator does.
//
// It wraps libtorch's own allocator, which still makes and frees every block, so it can be installed at any time. That
// allocator is found by its symbol, because this compiles and links without CUDA.

#ifndef _WIN32

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <dlfcn.h>

#include <array>
#include <limits>
#include <mutex>

#include "guard.h"
#include "segments.h"
#include "shim.h"

namespace toma {
namespace {

using namespace c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::cuda::CUDAStream;
using c10::DeviceIndex, c10::MempoolId_t;

struct Limit {
  std::atomic<uint64_t> bytes{std::numeric_limits<uint64_t>::max()};
  // Ensures that two threads do not both get memory that only one of them fits into.
  std::mutex lock;
};

// Never destroyed: threads may allocate while the process ends.
std::array<Limit, 64>& limits() {
  static auto* limits = new std::array<Limit, 64>;
  return *limits;
}

struct Relieving final : CUDAAllocator {
  explicit Relieving(CUDAAllocator& found) : found(found) {}

  c10::DataPtr allocate(size_t bytes) override {
    return relieved(bytes, [&] { return found.allocate(bytes); });
  }
  void* raw_alloc(size_t bytes) override {
    return relieved(bytes, [&] { return found.raw_alloc(bytes); });
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    return relieved(bytes, [&] { return found.raw_alloc_with_stream(bytes, stream); });
  }

  // Functions that are passed on unchanged.
  c10::DeleterFnPtr raw_deleter() const override { return found.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { found.copy_data(to, from, bytes); }
  void raw_delete(void* data) override { found.raw_delete(data); }
  bool initialized() override { return found.initialized(); }
  void init(int devices) override { found.init(devices); }
  void emptyCache(MempoolId_t pool) override { found.emptyCache(pool); }
  void recordStream(const c10::DataPtr& data, CUDAStream stream) override { found.recordStream(data, stream); }
  DeviceStats getDeviceStats(DeviceIndex at) override { return found.getDeviceStats(at); }
  void resetAccumulatedStats(DeviceIndex at) override { found.resetAccumulatedStats(at); }
  void resetPeakStats(DeviceIndex at) override { found.resetPeakStats(at); }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex at) override { return found.getMemoryInfo(at); }
  double getMemoryFraction(DeviceIndex at) override { return found.getMemoryFraction(at); }
  void setMemoryFraction(double fraction, DeviceIndex at) override { found.setMemoryFraction(fraction, at); }
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex at) override {
    return found.getExpandableSegmentSizes(at);
  }
  void enable(bool value) override { found.enable(value); }
  bool isEnabled() const override { return found.isEnabled(); }
  void cacheInfo(DeviceIndex at, size_t* largest) override { found.cacheInfo(at, largest); }
  void* getBaseAllocation(void* data, size_t* size) override { return found.getBaseAllocation(data, size); }
  SnapshotInfo snapshot(MempoolId_t pool, bool traces) override { return found.snapshot(pool, traces); }
  void beginAllocateToPool(DeviceIndex at, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) override {
    found.beginAllocateToPool(at, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex at, MempoolId_t pool) override { found.endAllocateToPool(at, pool); }
  void releasePool(DeviceIndex at, MempoolId_t pool) override { found.releasePool(at, pool); }
  int getPoolUseCount(DeviceIndex at, MempoolId_t pool) override { return found.getPoolUseCount(at, pool); }
  void createOrIncrefPool(DeviceIndex at, MempoolId_t pool, std::shared_ptr<CUDAAllocator> allocator) override {
    found.createOrIncrefPool(at, pool, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex at, MempoolId_t pool, bool use) override { found.setUseOnOOM(at, pool, use); }
  void setNoSplit(DeviceIndex at, MempoolId_t pool) override { found.setNoSplit(at, pool); }
  bool checkPoolLiveAllocations(DeviceIndex at, MempoolId_t pool, const std::unordered_set<void*>& live) override {
    return found.checkPoolLiveAllocations(at, pool, live);
  }
  ShareableHandle shareIpcHandle(void* data) override { return found.shareIpcHandle(data); }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { return found.getIpcDevPtr(std::move(handle)); }
  bool isHistoryEnabled() override { return found.isHistoryEnabled(); }
  void recordHistory(
      bool enabled, CreateContextFn context, size_t entries, RecordContext when, bool clear,
      const std::vector<std::string>& skipped) override {
    found.recordHistory(enabled, context, entries, when, clear, skipped);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& values) override {
    found.recordAnnotation(values);
  }
  void pushCompileContext(std::string& name) override { found.pushCompileContext(name); }
  void popCompileContext() override { found.popCompileContext(); }
  void setUserMetadata(const std::string& words) override { found.setUserMetadata(words); }
  std::string getUserMetadata() override { return found.getUserMetadata(); }
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    found.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    found.attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex one, DeviceIndex other) override { found.enablePeerAccess(one, other); }
  cudaError_t memcpyAsync(
      void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream, bool peer) override {
    return found.memcpyAsync(to, to_device, from, from_device, bytes, stream, peer);
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex at, MempoolId_t pool) override {
    return found.getCheckpointState(at, pool);
  }
  CheckpointDelta setCheckpointPoolState(DeviceIndex at, std::shared_ptr<AllocatorState> state) override {
    return found.setCheckpointPoolState(at, std::move(state));
  }
  std::string name() override { return found.name(); }

 private:
  // Returns the block that `make` makes on the current device, as soon as enough bytes are evicted.
  template <class F>
  auto relieved(size_t bytes, const F& make) -> decltype(make()) {
    if (bytes == 0) {
      return make();
    }
    const auto device = c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice();
    auto& limit = limits().at(static_cast<size_t>(device.index()));
    while (true) {
      const auto most = limit.bytes.load(std::memory_order_relaxed);
      auto held = most == std::numeric_limits<uint64_t>::max() ? std::unique_lock<std::mutex>() : std::unique_lock(limit.lock);
      const auto before = held ? allocated_bytes(device.index()) : 0;
      if (const auto after = before + bytes; after > most) {
        held.unlock();
        if (!is_relieved(device, after - most) && allocated_bytes(device.index()) >= before) {
          refuse(device, bytes, before, most);
        }
        continue;
      }
      try {
        return make();
      } catch (const c10::OutOfMemoryError&) {
        held = {};
        if (!is_relieved(device, bytes)) {
          throw;
        }
      }
    }
  }

  uint64_t allocated_bytes(DeviceIndex at) {
    constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return static_cast<uint64_t>(found.getDeviceStats(at).allocated_bytes[all].current);
  }

  // Has no backtrace, which would take milliseconds to print and add nothing to the message.
  [[noreturn]] static void refuse(c10::Device device, size_t bytes, uint64_t before, uint64_t most) {
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), before, before, device);
    const auto why = c10::str(
        "CUDA out of memory: tried to allocate ", bytes, " bytes on ", device, ", ", before, " of ", most,
        " are allocated");
    throw c10::OutOfMemoryError(why, nullptr);
  }

  CUDAAllocator& found;
};

// Address of libtorch's pointer to its CUDA allocator; null without CUDA.
std::atomic<CUDAAllocator*>* variable_of_allocator() {
  return static_cast<std::atomic<CUDAAllocator*>*>(dlsym(RTLD_DEFAULT, "_ZN3c104cuda20CUDACachingAllocator9allocatorE"));
}

void install_relieving() {
  auto* variable = variable_of_allocator();
  if (variable == nullptr || variable->load() == nullptr) {
    return;
  }
  auto* relieving = new Relieving(*variable->load());
  // libtorch stores the pointer without a lock. Threads that read it must see the finished allocator.
  std::atomic_thread_fence(std::memory_order_release);
  c10::SetAllocator(c10::kCUDA, relieving, std::numeric_limits<uint8_t>::max());
  variable->store(relieving);
}

}  // namespace
}  // namespace toma

void toma_cuda_relieve(uint32_t device, uint64_t most_bytes) noexcept {
  static std::once_flag once;
  std::call_once(once, toma::install_relieving);
  if (device < toma::limits().size()) {
    toma::limits()[device].bytes.store(most_bytes);
  }
}

#else

void toma_cuda_relieve(uint32_t, uint64_t) noexcept {}

#endif
