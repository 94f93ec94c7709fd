// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace ddp::bench {

// Runs each client's operation repeatedly, on a thread of its own, for about `slice`. Returns the
// number of operations per second of all clients together; rethrows the first error.
[[nodiscard]] double operations_per_second(const std::vector<std::function<void()>>& clients,
                                           std::chrono::milliseconds slice);

}  // namespace ddp::bench
