// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// Ranks of one job must run the same version. Equal to the project's version in CMake (tested).
inline constexpr const char* kVersion = "0.1.0";

}  // namespace ddp
