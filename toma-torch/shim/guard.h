// The one place where exceptions become codes.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

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

// Throws where there is no such device.
c10::Device existing(toma_device device);

inline bool means_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return true;
  }
  if (const auto* accelerator = dynamic_cast<const c10::AcceleratorError*>(&error)) {
    // The number of CUDA and of HIP.
    return accelerator->get_error_code() == 2;
  }
  // The host's has no type.
  return std::strstr(error.what_without_backtrace(), "DefaultCPUAllocator: ") != nullptr;
}

inline int32_t failed(toma_error* error, int32_t code, const char* words) noexcept {
  std::strncpy(error->message, words, sizeof error->message - 1);
  error->message[sizeof error->message - 1] = '\0';
  return code;
}

// `what_without_backtrace`: symbolizing one costs milliseconds.
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

// A thread's own `T`. Null once the thread has destroyed it: the destructors of the program's own thread-locals may still
// call operators.
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

// Tells the recorders of this thread of a block of the CPU's, with fewer than no bytes when it is given back.
void tell_of_block(void* data, int64_t bytes) noexcept;

// While one of these lives, allocations of this thread are never refused, and their blocks are not counted as long
// as they live: the program has not asked for them. Were they counted, other threads would find less free meanwhile.
struct Exempt {
  Exempt() noexcept;
  ~Exempt();
  Exempt(const Exempt&) = delete;
  Exempt& operator=(const Exempt&) = delete;
};

// A living block of the CPU stays where it is, and counts as freed until it is taken back, which may be refused as an
// allocation is. Code that reads memory by its address, on any thread, so never finds it freed.
void lay_aside(void* data) noexcept;
void take_back(void* data);

// Whether this thread moves storages: its allocations are not those of operators, and lack nothing.
bool& moves_storages() noexcept;

// Whether an allocation that lacks bytes is worth another try.
bool is_relieved(c10::Device device, uint64_t lacking_bytes);

}  // namespace toma
