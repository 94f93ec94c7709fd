// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

namespace ddp {

// The first digits of a hash over libddp's sources (cmake/DdpBuildId.cmake). Builds of the same
// sources have the same id, whatever their path.
[[nodiscard]] std::string_view build_id();

}  // namespace ddp
