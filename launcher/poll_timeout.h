// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "ddp/base/time.h"

namespace ddp::launcher {

// The earlier of those deadlines that exist.
[[nodiscard]] inline std::optional<Deadline> earlier(const std::optional<Deadline>& a,
                                                     const std::optional<Deadline>& b) {
  if (!a || !b) return a ? a : b;
  return a->time_point() < b->time_point() ? a : b;
}

// Milliseconds until the deadline, for poll(2); -1 if there is none.
[[nodiscard]] inline int poll_timeout(const std::optional<Deadline>& deadline) {
  if (!deadline) return -1;
  return static_cast<int>(std::min<Timeout>(deadline->remaining(), std::chrono::hours(1)).count());
}

}  // namespace ddp::launcher
