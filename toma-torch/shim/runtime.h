// Functions of CUDA's runtime, found by name, because this compiles and links without CUDA.
#pragma once

#ifndef _WIN32
#include <dlfcn.h>
#endif

namespace toma {

// Null if there is no such function.
template <class F>
F* function_of_cuda([[maybe_unused]] const char* name) noexcept {
#ifndef _WIN32
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
#else
  return nullptr;
#endif
}

}  // namespace toma
