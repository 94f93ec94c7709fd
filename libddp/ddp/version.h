// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// Ranks of one job must run the same version. A test compares it with the project's in CMake.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace ddp
