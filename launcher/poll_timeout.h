// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <optional>

#include "ddp/base/time.h"

namespace ddp::launcher {

// Milliseconds until the nearest of these, for poll(2); -1 if there is none.
inline int poll_timeout(std::initializer_list<std::optional<Deadline>> deadlines) {
  Timeout nearest = std::chrono::hours(1);
  bool any = false;
  for (const auto& deadline : deadlines) {
    if (!deadline) continue;
    nearest = std::min(nearest, deadline->remaining());
    any = true;
  }
  return any ? static_cast<int>(nearest.count()) : -1;
}

}  // namespace ddp::launcher
