// Memory locations of tensors.

#include "dry.h"
#include "guard.h"
#include "operators.h"
#include "swap.h"

namespace {

uint64_t address_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return 0;
  }
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  return toma::is_evicted(*storage) ? 0 : reinterpret_cast<uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
}

[[noreturn]] void refuse(const char* words) { throw c10::NotImplementedError(words, nullptr); }

}  // namespace

// The address of the storage itself, which views share; a tensor that gets other memory keeps it.
const void* toma_storage_identity(const void* tensor) noexcept {
  const auto& handle = toma::tensor_of(tensor);
  return handle.defined() && handle.has_storage() ? handle.storage().unsafeGetStorageImpl() : nullptr;
}

// Writes the address of a tensor's memory; of a sparse one, the addresses of its indices and of its values.
void toma_storage_addresses(const void* tensor, bool of_gradient, uint64_t* out) noexcept {
  out[0] = out[1] = 0;
  const auto& handle = toma::tensor_of(tensor);
  if (!handle.defined()) {
    return;
  }
  try {
    const auto& of = of_gradient ? handle.grad() : handle;
    if (of.defined() && of.layout() == c10::kSparse) {
      out[0] = address_of(of._indices());
      out[1] = address_of(of._values());
    } else {
      out[0] = address_of(of);
    }
  } catch (const std::exception&) {
    // A tensor without memory of its own has no address.
  }
}

// Runs no operator: the tensor is only inspected, on whichever device it is.
int32_t toma_tensor_memory(const void* tensor, toma_tensor* out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    const auto& handle = toma::tensor_of(tensor);
    if (!handle.defined()) {
      refuse("must be defined");
    }
    if (handle.is_meta()) {
      refuse("is on the device meta, which has no memory");
    }
    if (handle.is_nested()) {
      refuse("is nested, and has no one shape");
    }
    *out = {toma::numbers_of(handle.device()), static_cast<int32_t>(handle.layout())};
    if (handle.layout() != c10::kStrided || !handle.has_storage()) {
      return;
    }
    const auto& storage = *handle.storage().unsafeGetStorageImpl();
    // The addresses of a dry run have no memory.
    const auto data = toma::block_of(handle) != nullptr ? 0 : address_of(handle);
    out->storage = reinterpret_cast<uintptr_t>(&storage);
    out->data = data;
    out->bytes = data == 0 ? 0 : toma::bytes_of(storage);
    out->element_bytes = handle.itemsize();
    out->offset = static_cast<uint64_t>(handle.storage_offset());
  });
}
