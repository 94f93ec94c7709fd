// SPDX-License-Identifier: MIT
#pragma once

#include <dlfcn.h>

namespace ddp::detail {

// False if `library`, a handle of dlopen's, has no such function.
template <class Function>
[[nodiscard]] bool load_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace ddp::detail
