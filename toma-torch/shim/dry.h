// Tensors without memory, and what one dry run knows.
//
// # Why
//
// A dry tensor has addresses, so that host code may read and write it and storages stay apart. Each is a
// mapping of its own.
#pragma once

#include <ATen/EmptyTensor.h>
#include <sys/mman.h>

#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include "meter.h"
#include "observe.h"
#include "random.h"

namespace toma {

// A tensor of the user's that autograd may change: the handle of its gradient, and the count of its versions.
struct Held {
  at::Tensor tensor;
  at::Tensor gradient;
  uint32_t version;
  // Operators of the dry run have written to it.
  bool is_written = false;
};

// What this thread has allocated in dry runs.
Level& dry_level() noexcept;

struct Dry final : std::enable_shared_from_this<Dry> {
  // Of its tensors on a device; also for libtorch's own code that gives one of them other memory.
  c10::Allocator& allocator(c10::Device device);

  void note(const std::string& name) {
    const std::lock_guard<std::mutex> locked(lock);
    unknown += unknown.find(name + ",") == std::string::npos ? name + ", " : "";
  }

  bool by_shapes = false;
  // What data are said to be where only they know.
  double answer = 1;
  // Before it.
  const std::vector<Random> random = Random::of_all();
  std::atomic<size_t> operators = 0;
  // Guards the rest: blocks may die on any thread.
  std::mutex lock;
  std::unordered_map<c10::Device, struct DryAllocator> allocators;
  std::unordered_set<const struct DryBlock*> living;
  std::string refused;
  // With a comma after each.
  std::string unknown;
  std::unordered_map<const c10::TensorImpl*, Held> held;
};

// Addresses that nothing stands behind until host code writes to them. The run that they are of lives until the
// last of them is gone.
struct DryBlock {
  DryBlock(std::shared_ptr<Dry> of, size_t bytes, c10::Device device)
      : run(std::move(of)), bytes(bytes), device(device), made_by(leaf_name()) {
    constexpr auto flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    data = bytes == 0 ? nullptr : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (data == MAP_FAILED) {
      throw c10::OutOfMemoryError("CPU out of memory: no addresses for " + std::to_string(bytes) + " bytes of a dry run", nullptr);
    }
    tell(data, static_cast<int64_t>(bytes), device);
    dry_level().change(static_cast<int64_t>(bytes));
    const std::lock_guard<std::mutex> locked(run->lock);
    run->living.insert(this);
  }

  ~DryBlock() {
    tell(data, -static_cast<int64_t>(bytes), device);
    dry_level().change(-static_cast<int64_t>(bytes));
    if (data != nullptr) {
      ::munmap(data, bytes);
    }
    const std::lock_guard<std::mutex> locked(run->lock);
    run->living.erase(this);
  }

  static void release(void* block) { delete static_cast<DryBlock*>(block); }

  std::shared_ptr<Dry> run;
  void* data;
  size_t bytes;
  c10::Device device;
  const char* made_by;
};

struct DryAllocator final : c10::Allocator {
  DryAllocator(Dry& run, c10::Device device) : run(run), device(device) {}
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new DryBlock(run.shared_from_this(), bytes, device);
    return {block->data, block, &DryBlock::release, device};
  }
  void copy_data(void*, const void*, size_t) const override {}

  Dry& run;
  c10::Device device;
};

inline c10::Allocator& Dry::allocator(c10::Device device) {
  const std::lock_guard<std::mutex> locked(lock);
  return allocators.try_emplace(device, *this, device).first->second;
}

inline bool is_dry(const at::DataPtr& data) { return data.get_deleter() == &DryBlock::release; }

// The block behind a dry tensor of any run; null for others.
inline const DryBlock* block_of(const at::Tensor& tensor) {
  const auto& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return is_dry(data) ? static_cast<const DryBlock*>(data.get_context()) : nullptr;
}

// A tensor that looks the same and shares nothing, in so many bytes. With a key of `more` its operators come there on any
// thread.
inline at::Tensor twin(const at::Tensor& like, size_t bytes, c10::Device device, c10::Allocator& allocator, c10::DispatchKeySet more = {}) {
  const auto keys = more | c10::DispatchKeySet(c10::computeDispatchKey(like.scalar_type(), c10::kStrided, device));
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<int64_t>(bytes), &allocator, true);
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    made.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return made;
}

}  // namespace toma
