// Tensors without memory, and the state of one dry run.
//
// # Why
//
// A dry tensor has addresses, so that host code may read and write it and storages remain distinct. Each is a mapping
// of its own.
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

// A tensor of the user's that autograd may change: its gradient and its version before the run.
struct TensorBefore {
  at::Tensor tensor;
  at::Tensor gradient;
  uint32_t version;
  // True if operators of the dry run have written to it.
  bool is_written = false;
};

// Bytes that this thread has allocated in dry runs.
Level& dry_level() noexcept;

struct Dry final : std::enable_shared_from_this<Dry> {
  // Allocator of the run's tensors on a device; libtorch's own code also uses it to give one of them other memory.
  c10::Allocator& allocator(c10::Device device);

  void note(const std::string& name) {
    const std::lock_guard<std::mutex> locked(lock);
    unknown += unknown.find(name + ",") == std::string::npos ? name + ", " : "";
  }

  bool by_shapes = false;
  // Next number that is assumed where a result depends on data, and the step from it to the one after it.
  double answer = 1, step = 0;
  // State before the run.
  const std::vector<Random> random = Random::of_all();
  std::atomic<size_t> operators = 0;
  // Guards the fields below, because blocks may be freed on any thread.
  std::mutex lock;
  std::unordered_map<c10::Device, struct DryAllocator> allocators;
  std::unordered_set<const struct DryBlock*> living;
  std::string refused;
  // Names of operators, with a comma after each.
  std::string unknown;
  std::unordered_map<const c10::TensorImpl*, TensorBefore> held;
};

// Addresses without pages until host code writes to them. Keeps its run alive.
struct DryBlock {
  DryBlock(std::shared_ptr<Dry> of, size_t bytes, c10::Device device)
      : run(std::move(of)), bytes(bytes), device(device), made_by(leaf_name()) {
    constexpr auto flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    data = bytes == 0 ? nullptr : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (data == MAP_FAILED) {
      throw c10::OutOfMemoryError("CPU out of memory: no addresses for " + std::to_string(bytes) + " bytes of a dry run", nullptr);
    }
    report_block(data, static_cast<int64_t>(bytes), device);
    dry_level().change(static_cast<int64_t>(bytes));
    const std::lock_guard<std::mutex> locked(run->lock);
    run->living.insert(this);
  }

  ~DryBlock() {
    report_block(data, -static_cast<int64_t>(bytes), device);
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

// Returns the block behind a dry tensor of any run; null for other tensors.
inline const DryBlock* block_of(const at::Tensor& tensor) {
  const auto& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return is_dry(data) ? static_cast<const DryBlock*>(data.get_context()) : nullptr;
}

// Makes a tensor with the same shape and strides that shares nothing, in `bytes` of memory. With a key in `more`, its
// operators are dispatched there on any thread.
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
