// Conversion of exceptions to codes and back.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "shim.h"

namespace toma {

struct NoDevice : std::exception {
  explicit NoDevice(std::string words) : words(std::move(words)) {}
  const char* what() const noexcept override { return words.c_str(); }
  std::string words;
};

// Throws NoDevice if the device does not exist.
c10::Device existing(toma_device device);

// Kind and index of a device; the index is 0 for a device without one, such as the CPU.
inline toma_device numbers_of(c10::Device device) noexcept {
  return {static_cast<int32_t>(device.type()), std::max<int32_t>(device.index(), 0)};
}

inline bool means_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return true;
  }
  if (const auto* accelerator = dynamic_cast<const c10::AcceleratorError*>(&error)) {
    // Out of memory in CUDA and in HIP.
    return accelerator->get_error_code() == 2;
  }
  // The error of the host's allocator has no type of its own.
  return std::strstr(error.what_without_backtrace(), "DefaultCPUAllocator: ") != nullptr;
}

inline int32_t failed(toma_error* error, int32_t code, const char* words) noexcept {
  std::strncpy(error->message, words, sizeof error->message - 1);
  error->message[sizeof error->message - 1] = '\0';
  return code;
}

// Uses `what_without_backtrace`, because symbolizing a backtrace takes milliseconds.
template <class F>
int32_t guarded(toma_error* error, F body) noexcept {
  try {
    body();
    return TOMA_OK;
  } catch (const NoDevice& e) {
    return failed(error, TOMA_NO_DEVICE, e.what());
  } catch (const c10::NotImplementedError& e) {
    return failed(error, TOMA_UNSUPPORTED, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    return failed(error, means_out_of_memory(e) ? TOMA_OUT_OF_MEMORY : TOMA_OTHER, e.what_without_backtrace());
  } catch (const std::bad_alloc& e) {
    return failed(error, TOMA_OUT_OF_MEMORY, e.what());
  } catch (const std::exception& e) {
    return failed(error, TOMA_OTHER, e.what());
  } catch (...) {
    return failed(error, TOMA_OTHER, "an exception of unknown type");
  }
}

// Throws the error of a code as an exception of libtorch's.
[[noreturn]] inline void throw_error(int32_t code, const toma_error& error) {
  if (code == TOMA_OUT_OF_MEMORY) {
    throw c10::OutOfMemoryError(error.message, nullptr);
  }
  throw c10::Error(error.message, nullptr);
}

// Returns the thread's own `T`. Null once the thread has destroyed it: destructors of the program's own thread-locals
// may still call operators.
template <class T>
T* of_thread() noexcept {
  static thread_local bool is_gone = false;
  struct Own {
    ~Own() { is_gone = true; }
    T value;
  };
  if (is_gone) {
    return nullptr;
  }
  static thread_local Own own;
  return &own.value;
}

// Reports a CPU block to the recorders of this thread; `bytes` is negative when it is freed.
void report_cpu_block(void* data, int64_t bytes) noexcept;

// While one of these is alive, allocations of this thread are never refused, and their blocks are never counted,
// because the program did not ask for them. If they were counted, other threads would find fewer free bytes.
struct Exempt {
  Exempt() noexcept;
  ~Exempt();
  Exempt(const Exempt&) = delete;
  Exempt& operator=(const Exempt&) = delete;
};

// Keeps a live CPU block in place but counts it as freed until `count_again`, which can fail as an allocation can. So
// code on any thread that reads memory by its address never finds it freed.
void uncount_in_place(void* data) noexcept;
void count_again(void* data);

// True while this thread moves storages: then its allocations are not those of operators and evict nothing.
bool& moves_storages() noexcept;

// Returns true if an allocation that lacks so many bytes is worth a retry.
bool is_relieved(c10::Device device, uint64_t lacking_bytes);

}  // namespace toma
