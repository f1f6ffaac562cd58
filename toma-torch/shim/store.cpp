// The store of c10d in which processes find each other and exchange messages.

#include <c10/util/Exception.h>

#if __has_include(<torch/csrc/distributed/c10d/TCPStore.hpp>)
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#define TOMA_HAS_STORE 1
#endif

#include <chrono>
#include <cstring>
#include <vector>

#include "guard.h"
#include "shim.h"

#ifdef TOMA_HAS_STORE

namespace {

using Handle = c10::intrusive_ptr<c10d::Store>;

c10d::Store& store_of(void* store) {
  return **static_cast<Handle*>(store);
}

// Copies the bytes if there is room for them; otherwise the caller asks again with more.
void hand_out(const std::vector<uint8_t>& bytes, toma_bytes* out) {
  out->size = bytes.size();
  if (bytes.size() <= out->room) {
    std::memcpy(out->data, bytes.data(), bytes.size());
  }
}

}  // namespace

int32_t toma_store_open(
    const char* host, uint16_t port, bool serves, uint64_t timeout_ms, void** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = serves;
    options.waitWorkers = false;
    options.timeout = std::chrono::milliseconds(timeout_ms);
    Handle store = c10::make_intrusive<c10d::TCPStore>(host, options);
    *out = new Handle(std::move(store));
  });
}

int32_t toma_store_clone(void* store, void** out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    *out = new Handle(store_of(store).clone());
  });
}

void toma_store_close(void* store) noexcept {
  delete static_cast<Handle*>(store);
}

int32_t toma_store_set(void* store, const char* key, const uint8_t* data, size_t size, toma_error* error) noexcept {
  return toma::guarded(error, [&] { store_of(store).set(key, std::vector<uint8_t>(data, data + size)); });
}

int32_t toma_store_set_first(
    void* store, const char* key, const uint8_t* data, size_t size, toma_bytes* out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    hand_out(store_of(store).compareSet(key, std::vector<uint8_t>(), std::vector<uint8_t>(data, data + size)), out);
  });
}

int32_t toma_store_add(void* store, const char* key, int64_t amount, int64_t* sum, toma_error* error) noexcept {
  return toma::guarded(error, [&] { *sum = store_of(store).add(key, amount); });
}

int32_t toma_store_get(void* store, const char* key, uint64_t timeout_ms, toma_bytes* out, toma_error* error) noexcept {
  return toma::guarded(error, [&] {
    out->is_there = timeout_ms > 0 || store_of(store).check({key});
    if (!out->is_there) {
      return;
    }
    if (timeout_ms > 0) {
      store_of(store).setTimeout(std::chrono::milliseconds(timeout_ms));
    }
    try {
      hand_out(store_of(store).get(key), out);
    } catch (const c10::DistStoreError&) {
      // The key was not set in time: nothing else has this type.
      out->is_there = false;
    }
  });
}

int32_t toma_store_delete(void* store, const char* key, toma_error* error) noexcept {
  return toma::guarded(error, [&] { store_of(store).deleteKey(key); });
}

#else

namespace {

int32_t has_none(toma_error* error) noexcept {
  return toma::failed(error, TOMA_UNSUPPORTED, "this libtorch has no TCPStore");
}

}  // namespace

int32_t toma_store_open(const char*, uint16_t, bool, uint64_t, void**, toma_error* error) noexcept { return has_none(error); }
int32_t toma_store_clone(void*, void**, toma_error* error) noexcept { return has_none(error); }
void toma_store_close(void*) noexcept {}
int32_t toma_store_set(void*, const char*, const uint8_t*, size_t, toma_error* error) noexcept { return has_none(error); }
int32_t toma_store_set_first(void*, const char*, const uint8_t*, size_t, toma_bytes*, toma_error* error) noexcept {
  return has_none(error);
}
int32_t toma_store_add(void*, const char*, int64_t, int64_t*, toma_error* error) noexcept { return has_none(error); }
int32_t toma_store_get(void*, const char*, uint64_t, toma_bytes*, toma_error* error) noexcept { return has_none(error); }
int32_t toma_store_delete(void*, const char*, toma_error* error) noexcept { return has_none(error); }

#endif
