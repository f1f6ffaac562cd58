// Tensors without memory, and what one dry run knows.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "observe.h"
#include "state.h"

namespace toma {

// A tensor of the user's that autograd may change: the handle of its gradient, and the count of its versions.
struct Held {
  at::Tensor tensor;
  at::Tensor gradient;
  uint32_t version;
};

struct Dry final : Entry, std::enable_shared_from_this<Dry> {
  bool is_wall() const override { return true; }

  bool by_shapes = false;
  // Guards the rest: blocks may die on any thread.
  std::mutex lock;
  std::unordered_set<const struct DryBlock*> living;
  std::string refused;
  // Separated by commas.
  std::string unknown;
  std::unordered_map<const c10::TensorImpl*, Held> held;
};

// Addresses that nothing stands behind until host code writes to them. The run that they are of lives until the
// last of them is gone.
struct DryBlock {
  DryBlock(std::shared_ptr<Dry> of, uint64_t bytes, c10::Device device)
      : run(std::move(of)), bytes(bytes), device(device), made_by(leaf_name()) {
    constexpr auto flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    data = bytes == 0 ? nullptr : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (data == MAP_FAILED) {
      const auto words = "CPU out of memory: no addresses for " + std::to_string(bytes) + " bytes of a dry run";
      throw c10::OutOfMemoryError(words, nullptr);
    }
    write(TOMA_BORN);
    const std::lock_guard<std::mutex> locked(run->lock);
    run->living.insert(this);
  }

  ~DryBlock() {
    const std::lock_guard<std::mutex> locked(run->lock);
    run->living.erase(this);
    write(TOMA_DIED);
    if (data != nullptr) {
      ::munmap(data, bytes);
    }
  }

  void write(toma_event_kind kind) const noexcept {
    if (bytes > 0) {
      run->state->each<Recorder>([&](Recorder& recorder) { recorder.write(kind, data, bytes, device); });
    }
  }

  static void release(void* block) { delete static_cast<DryBlock*>(block); }

  std::shared_ptr<Dry> run;
  void* data;
  uint64_t bytes;
  c10::Device device;
  const char* made_by;
};

inline c10::DataPtr dry_data(std::shared_ptr<Dry> run, uint64_t bytes, c10::Device device) {
  auto* block = new DryBlock(std::move(run), bytes, device);
  return {block->data, block, &DryBlock::release, device};
}

// The block behind a dry tensor of any run; null for others.
inline const DryBlock* block_of(const at::Tensor& tensor) {
  const auto& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return data.get_deleter() == &DryBlock::release ? static_cast<const DryBlock*>(data.get_context()) : nullptr;
}

// The run that this thread is in.
inline std::shared_ptr<Dry> dry_run_of_thread() {
  std::shared_ptr<Dry> found;
  if (const auto* state = State::current()) {
    state->each<Dry>([&](Dry& run) { found = run.shared_from_this(); });
  }
  TORCH_CHECK(found != nullptr, "dry run: a tensor of it was kept, or it was taken off this thread");
  return found;
}

// For libtorch's own code that gives a dry tensor of the CPU other memory.
struct DryAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override { return dry_data(dry_run_of_thread(), bytes, c10::kCPU); }
  void copy_data(void*, const void*, size_t) const override {}
};

inline c10::Allocator* dry_allocator() {
  static auto& allocator = *new DryAllocator;
  return &allocator;
}

// A tensor over other memory that looks the same.
inline at::Tensor twin(const at::Tensor& like, uint64_t bytes, c10::DataPtr data, c10::Allocator* allocator) {
  const auto device = data.device();
  const auto keys = c10::DispatchKeySet(c10::computeDispatchKey(like.scalar_type(), c10::kStrided, device));
  auto storage = c10::Storage(c10::Storage::use_byte_size_t(), static_cast<int64_t>(bytes), std::move(data), allocator, true);
  if (!device.is_cpu() && !device.is_meta()) {
    // A kernel that came past us would poison the device.
    storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_("a tensor of a dry run has no data");
  }
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    made.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return made;
}

// One that looks the same and shares nothing, of Meta, or zeros of the CPU.
inline at::Tensor twin_on(const at::Tensor& like, c10::DeviceType device) {
  const auto bytes = at::detail::computeStorageNbytes(like.sizes(), like.strides(), like.itemsize());
  auto* allocator = c10::GetAllocator(device);
  auto data = allocator->allocate(bytes);
  if (data.get() != nullptr) {
    std::memset(data.get(), 0, bytes);
  }
  return twin(like, bytes, std::move(data), allocator);
}

}  // namespace toma
