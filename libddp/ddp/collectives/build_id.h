// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

namespace ddp {

// The begin of a hash over libddp's sources (cmake/DdpBuildId.cmake): equal wherever the same
// sources were built, on whatever path.
[[nodiscard]] std::string_view build_id();

}  // namespace ddp
