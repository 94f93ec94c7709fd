// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace ddp::bench {

// How often any thread of this process has called operator new, which allocations.cpp replaces.
[[nodiscard]] std::uint64_t allocation_count();

}  // namespace ddp::bench
