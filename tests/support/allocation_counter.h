// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace ddp::test {

// The number of calls of operator new in this process so far, on all threads. Only for executables
// that link allocation_counter.cpp, which replaces the operator.
[[nodiscard]] std::int64_t allocations();

}  // namespace ddp::test
