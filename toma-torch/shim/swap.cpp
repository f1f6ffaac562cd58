// The memory of a storage is taken away and given back, which tensors, views and graphs of it do not notice.

#include "swap.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>

#include "dry.h"
#include "guard.h"
#include "meter.h"
#include "operators.h"

namespace {

using Strong = c10::intrusive_ptr<c10::StorageImpl>;
using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;

// libtorch can refuse access to a storage, and not allow it again.
template <bool c10::StorageImpl::*member>
struct Refusal {
  friend bool& refusal_of(c10::StorageImpl& storage) { return storage.*member; }
};
template struct Refusal<&c10::StorageImpl::throw_on_immutable_data_ptr_>;
bool& refusal_of(c10::StorageImpl& storage);

// What stands for memory that is away is the context of a pointer to nowhere.
void away_dropped(void* away) { toma::level().change(-static_cast<int64_t>(toma::told_of_drop(away))); }

bool is_away(const at::DataPtr& data) { return data.get_deleter() == &away_dropped; }

bool is_of_allocator(const at::DataPtr& data) {
  const auto* allocator = c10::GetAllocator(data.device().type());
  return data.get() == data.get_context() && data.get_deleter() == allocator->raw_deleter();
}

c10::StorageImpl& storage_at(const void* storage) { return *static_cast<c10::StorageImpl*>(const_cast<void*>(storage)); }

at::Tensor bytes_at(void* data, uint64_t bytes, c10::Device device) {
  const auto options = at::TensorOptions().dtype(at::kByte).device(device);
  return at::for_blob(data, {static_cast<int64_t>(bytes)}).options(options).target_device(device).make_tensor();
}

// Ends when the bytes are there.
void copy(void* to, c10::Device to_device, const void* from, c10::Device from_device, uint64_t bytes) {
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard not_here(toma::mode_key);
  bytes_at(to, bytes, to_device).copy_(bytes_at(const_cast<void*>(from), bytes, from_device));
}

at::DataPtr& memory_at(void* memory) { return *static_cast<at::DataPtr*>(memory); }

}  // namespace

toma_use toma::use_of(c10::StorageImpl& storage, bool writes) {
  const auto& data = storage._mutable_data_ptr_no_checks();
  const auto device = data.device();
  const auto bytes = storage.sym_nbytes().is_heap_allocated() ? 0 : storage.nbytes();
  return {&storage, bytes, {static_cast<int32_t>(device.type()), std::max<int32_t>(device.index(), 0)}, writes, is_away(data) || is_of_allocator(data) || is_dry(data), false, false, nullptr};
}

void* toma_storage_remember(const void* storage) noexcept {
  return Weak(Strong::reclaim_copy(&storage_at(storage))).release();
}

void toma_storage_forget(void* remembered) noexcept { Weak::reclaim(&storage_at(remembered)); }

bool toma_storage_is_gone(const void* remembered) noexcept {
  return c10::raw::weak_intrusive_ptr::use_count(&storage_at(remembered)) == 0;
}

void* toma_storage_keep(void* remembered) noexcept {
  auto weak = Weak::reclaim(&storage_at(remembered));
  auto* kept = weak.lock().release();
  weak.release();
  return kept;
}

void toma_storage_let_go(void* kept) noexcept { Strong::reclaim(&storage_at(kept)); }

bool toma_storage_use(const void* tensor, bool second, toma_use* out) noexcept {
  const auto& asked = *static_cast<const at::Tensor*>(tensor);
  if (!asked.defined() || (second && asked.has_storage())) {
    return false;
  }
  auto of = asked.has_storage() ? asked : at::Tensor();
  toma::each_part_of(asked, [&](const at::Tensor& part) { of = second && of.defined() ? of : part; });
  if (of.defined() && of.has_storage()) {
    *out = toma::use_of(*of.storage().unsafeGetStorageImpl(), false);
  }
  return of.defined() && of.has_storage();
}

void* toma_storage_take(void* kept, void* away, const char* words) noexcept {
  auto& storage = storage_at(kept);
  const auto device = storage._mutable_data_ptr_no_checks().device();
  auto* memory = new at::DataPtr(storage.set_data_ptr({nullptr, away, &away_dropped, device}));
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(words);
  return memory;
}

void* toma_storage_give(void* kept, void* memory) noexcept {
  auto& storage = storage_at(kept);
  refusal_of(storage) = false;
  auto before = storage.set_data_ptr(std::move(memory_at(memory)));
  delete &memory_at(memory);
  return before.release_context();
}

void* toma_storage_away(void* kept) noexcept {
  const auto& data = storage_at(kept)._mutable_data_ptr_no_checks();
  return is_away(data) ? data.get_context() : nullptr;
}

int32_t toma_memory_make(toma_device device, uint64_t bytes, void** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto existing = toma::existing(device);
    const c10::DeviceGuard on(existing);
    *out = new at::DataPtr(c10::GetAllocator(existing.type())->allocate(bytes));
  });
}

void toma_memory_drop(void* memory) noexcept { delete &memory_at(memory); }

int32_t toma_memory_fill(void* memory, const void* host, uint64_t bytes, toma_error* error) noexcept {
  return toma::guarded(error, [&] { copy(memory_at(memory).get(), memory_at(memory).device(), host, c10::kCPU, bytes); });
}

int32_t toma_storage_copy(void* kept, void* host, uint64_t bytes, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto& storage = storage_at(kept);
    const auto& data = storage.data_ptr();
    if (storage.nbytes() != bytes) {
      throw c10::NotImplementedError(c10::str("offload: read of ", bytes, " bytes: the memory has ", storage.nbytes()), nullptr);
    }
    copy(host, c10::kCPU, data.get(), data.device(), bytes);
  });
}
