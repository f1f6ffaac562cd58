// Eviction and return of the memory of a storage, which its tensors, views and graphs do not notice.
//
// On a CPU the block of an evicted storage stays in place, at the same address but not counted, until the storage ends.
// An operator, `copy_data` or `save` of another thread may have read the address and not the memory yet, and nothing
// shows when it is done. The block is the memory of the storage all the while: if its bytes differ from the copy, an
// operator that began before there was a manager has written them since, and the block is right.

#include "swap.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <optional>

#include "dry.h"
#include "guard.h"
#include "meter.h"
#include "operators.h"
#include "runtime.h"

namespace {

using Strong = c10::intrusive_ptr<c10::StorageImpl>;
using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;

// Lets a storage refuse access and allow it again; libtorch can only do the former.
template <bool c10::StorageImpl::*refuses, bool c10::StorageImpl::*is_checked>
struct Refusal {
  friend void refuse(c10::StorageImpl& storage, bool now) { storage.*refuses = storage.*is_checked = now; }
};
template struct Refusal<&c10::StorageImpl::throw_on_immutable_data_ptr_, &c10::StorageImpl::has_mutable_data_ptr_check_>;
void refuse(c10::StorageImpl& storage, bool now);

// Context of the pointer of an evicted storage.
struct Evicted {
  void* stand_in;
  c10::Device device;
  // On a CPU the block itself, kept in place.
  at::DataPtr block;
};

void evicted_dropped(void* context) {
  const std::unique_ptr<Evicted> evicted(static_cast<Evicted*>(context));
  const auto bytes = toma::report_dropped(evicted->stand_in);
  const auto change = -static_cast<int64_t>(toma::taken_bytes(bytes, evicted->device));
  if (evicted->device.is_cpu()) {
    toma::level().change(change);
  } else if (const auto* counting = toma::counting()) {
    counting->change(change, evicted->device);
  }
}

// Deleter of memory that is counted as long as the pointer lives.
void block_dropped(void* data) { toma::uncount_in_place(data); }

bool is_evicted(const at::DataPtr& data) { return data.get_deleter() == &evicted_dropped; }

Evicted* evicted_of(c10::StorageImpl& storage) {
  const auto& data = storage._mutable_data_ptr_no_checks();
  return is_evicted(data) ? static_cast<Evicted*>(data.get_context()) : nullptr;
}

bool is_of_allocator(const at::DataPtr& data) {
  const auto* allocator = c10::GetAllocator(data.device().type());
  return data.get() == data.get_context() && data.get_deleter() == allocator->raw_deleter();
}

c10::StorageImpl& storage_at(const void* storage) { return *static_cast<c10::StorageImpl*>(const_cast<void*>(storage)); }

at::Tensor bytes_at(void* data, uint64_t bytes, c10::Device device) {
  const auto options = at::TensorOptions().dtype(at::kByte).device(device);
  return at::for_blob(data, {static_cast<int64_t>(bytes)}).options(options).target_device(device).make_tensor();
}

// Guard: this thread uses a GPU on a stream of its own, which starts after all work that the program has queued so far,
// because reused memory may be in use until then. Later work of the program does not wait.
class OwnStream {
 public:
  explicit OwnStream(c10::Device device) : on(device) {
    if (!device.is_cuda()) {
      return;
    }
    try {
      const c10::impl::VirtualGuardImpl of_device(device.type());
      const auto own = of_device.getStreamFromGlobalPool(device);
      c10::Event queued(device.type());
      queued.record(of_device.getStream(device));
      queued.block(own);
      stream.emplace(own);
    } catch (const c10::Error&) {
      // A full device may have no room for another stream. The program's own stream is slower and works.
    }
  }

 private:
  // Switches to the device first, because a look at another device would make a context there.
  const c10::DeviceGuard on;
  std::optional<c10::StreamGuard> stream;
};

// Returns when the bytes are copied.
void copy(void* to, c10::Device to_device, const void* from, c10::Device from_device, uint64_t bytes) {
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
    return;
  }
  const OwnStream own_stream(to_device.is_cpu() ? from_device : to_device);
  const c10::impl::ExcludeDispatchKeyGuard not_here(toma::mode_key);
  bytes_at(to, bytes, to_device).copy_(bytes_at(const_cast<void*>(from), bytes, from_device));
}

at::DataPtr& memory_at(void* memory) { return *static_cast<at::DataPtr*>(memory); }

}  // namespace

bool toma::is_evicted(const c10::StorageImpl& storage) noexcept {
  return ::is_evicted(const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks());
}

toma_use toma::use_of(c10::StorageImpl& storage, c10::Device device, bool writes) {
  const auto bytes = bytes_of(storage);
  if (writes && device.is_cuda() && storage.allocator() != nullptr) {
    // Memory that was allocated before the first manager would otherwise be resized past its budget.
    storage.set_allocator(c10::GetAllocator(c10::kCUDA));
  }
  return {&storage, bytes, numbers_of(device), writes, false, false, nullptr, nullptr};
}

bool toma_storage_may_move(const void* storage) noexcept {
  const auto& data = storage_at(storage)._mutable_data_ptr_no_checks();
  return is_evicted(data) || is_of_allocator(data) || toma::is_dry(data);
}

void* toma_storage_remember(const void* storage) noexcept {
  toma::known.add(toma::Counters::index_of(storage));
  return Weak(Strong::reclaim_copy(&storage_at(storage))).release();
}

void toma_storage_forget(void* remembered) noexcept {
  toma::known.remove(toma::Counters::index_of(remembered));
  Weak::reclaim(&storage_at(remembered));
}

bool toma_storage_is_in_use(const void* remembered) noexcept {
  return toma::in_use.has(toma::Counters::index_of(remembered));
}

bool toma_storage_is_gone(const void* remembered) noexcept {
  return c10::raw::weak_intrusive_ptr::use_count(&storage_at(remembered)) == 0;
}

void* toma_storage_keep(void* remembered) noexcept {
  auto weak = Weak::reclaim(&storage_at(remembered));
  auto* kept = weak.lock().release();
  weak.release();
  return kept;
}

void toma_storage_release(void* kept) noexcept { Strong::reclaim(&storage_at(kept)); }

bool toma_storage_use(const void* tensor, bool second, toma_use* out) noexcept {
  const auto& handle = toma::tensor_of(tensor);
  if (!handle.defined() || (second && handle.has_storage())) {
    return false;
  }
  auto of = handle.has_storage() ? handle : at::Tensor();
  toma::each_part_of(handle, [&](const at::Tensor& part) { of = second && of.defined() ? of : part; });
  if (of.defined() && of.has_storage()) {
    *out = toma::use_of(*of.storage().unsafeGetStorageImpl(), of.device(), false);
  }
  return of.defined() && of.has_storage();
}

void* toma_storage_take(void* kept, void* stand_in, bool stays, const char* words) noexcept {
  auto& storage = storage_at(kept);
  const auto device = storage._mutable_data_ptr_no_checks().device();
  auto* address = stays ? storage._mutable_data_ptr_no_checks().get() : nullptr;
  auto evicted = std::make_unique<Evicted>(Evicted{stand_in, device, {}});
  auto& block = evicted->block;
  // Refuses access before the memory is gone.
  toma_storage_refuse(kept, words);
  auto memory = storage.set_data_ptr({address, evicted.release(), &evicted_dropped, device});
  if (stays) {
    block = std::exchange(memory, {address, address, &block_dropped, device});
  }
  return new at::DataPtr(std::move(memory));
}

void toma_storage_refuse(void* kept, const char* words) noexcept {
  auto& storage = storage_at(kept);
  if (words != nullptr) {
    // Another thread may be reading the words, so they are written once.
    auto& written = storage.get_extra_meta().custom_data_ptr_error_msg_;
    if (!written) {
      written = words;
    }
  }
  // Without memory there is nothing to read.
  const auto* evicted = evicted_of(storage);
  refuse(storage, words != nullptr || (evicted != nullptr && !evicted->block));
}

void* toma_storage_give(void* kept, void* memory) noexcept {
  auto& storage = storage_at(kept);
  const std::unique_ptr<Evicted> evicted(evicted_of(storage));
  const std::unique_ptr<at::DataPtr> given(&memory_at(memory));
  if (evicted->block) {
    // The block that stayed in place, which is counted again.
    given->release_context();
    *given = std::move(evicted->block);
  }
  storage.set_data_ptr(std::move(*given)).release_context();
  refuse(storage, false);
  return evicted->stand_in;
}

const void* toma_storage_block(void* kept) noexcept {
  const auto* evicted = evicted_of(storage_at(kept));
  return evicted == nullptr ? nullptr : evicted->block.get();
}

void* toma_storage_stand_in(void* kept) noexcept {
  const auto* evicted = evicted_of(storage_at(kept));
  return evicted == nullptr ? nullptr : evicted->stand_in;
}

int32_t toma_storage_memory(void* kept, uint64_t bytes, void** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto* evicted = evicted_of(storage_at(kept));
    const auto device = storage_at(kept)._mutable_data_ptr_no_checks().device();
    if (evicted->block) {
      auto* address = evicted->block.get();
      auto memory = std::make_unique<at::DataPtr>();
      toma::count_again(address);
      *memory = {address, address, &block_dropped, device};
      *out = memory.release();
      return;
    }
    const c10::DeviceGuard on(device);
    *out = new at::DataPtr(c10::GetAllocator(device.type())->allocate(bytes));
  });
}

bool toma_host_pin(toma_device of, void* data, uint64_t bytes) noexcept try {
  const auto pin = toma::function_of_cuda<int(void*, size_t, unsigned)>("cudaHostRegister");
  const auto forget = toma::function_of_cuda<int()>("cudaGetLastError");
  if (pin == nullptr || forget == nullptr) {
    return false;
  }
  const c10::DeviceGuard on(toma::existing(of));
  const auto is_pinned = pin(data, bytes, 0) == 0;
  // libtorch would take the error for its own.
  return is_pinned || (forget(), false);
} catch (const std::exception&) {
  return false;
}

void toma_host_unpin(void* data) noexcept {
  if (toma::function_of_cuda<int(void*)>("cudaHostUnregister")(data) != 0) {
    toma::function_of_cuda<int()>("cudaGetLastError")();
  }
}

void toma_memory_drop(void* memory) noexcept { delete &memory_at(memory); }

int32_t toma_memory_fill(void* memory, const void* host, uint64_t bytes, bool overwrites, bool* differs, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto& to = memory_at(memory);
    const auto has_stayed = to.get_deleter() == &block_dropped;
    // Another thread may be reading or writing a block that stayed in place.
    *differs = has_stayed && std::memcmp(to.get(), host, bytes) != 0;
    if (!has_stayed || (*differs && overwrites)) {
      copy(to.get(), to.device(), host, c10::kCPU, bytes);
    }
  });
}

int32_t toma_storage_copy(void* kept, void* host, uint64_t bytes, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto& storage = storage_at(kept);
    // This also works if the block stayed in place and access may be refused.
    const auto& data = storage_at(kept)._mutable_data_ptr_no_checks();
    if (storage.nbytes() != bytes) {
      throw c10::NotImplementedError(c10::str("offload: read of ", bytes, " bytes: the memory has ", storage.nbytes()), nullptr);
    }
    copy(host, c10::kCPU, data.get(), data.device(), bytes);
  });
}
