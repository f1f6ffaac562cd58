// Functions of CUDA's runtime, by name: this compiles and links without it.
#pragma once

#ifndef _WIN32
#include <dlfcn.h>
#endif

namespace toma {

// Null where there is none.
template <class F>
F* function_of_cuda([[maybe_unused]] const char* name) noexcept {
#ifndef _WIN32
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
#else
  return nullptr;
#endif
}

}  // namespace toma
