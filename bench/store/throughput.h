// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace ddp::bench {

// Runs every client's operation over and over, each on a thread of its own, for about `slice`.
// Returns how many operations all of them finished per second; rethrows the first error.
[[nodiscard]] double operations_per_second(const std::vector<std::function<void()>>& clients,
                                           std::chrono::milliseconds slice);

}  // namespace ddp::bench
