// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace ddp {

// The C++ name for the linker's; any other text as it is.
[[nodiscard]] std::string demangle(const char* name);

}  // namespace ddp
