// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "ddp/base/time.h"

namespace ddp::launcher {

// The earlier of those deadlines that exist.
[[nodiscard]] inline std::optional<Deadline> earlier(const std::optional<Deadline>& a,
                                                     const std::optional<Deadline>& b) {
  if (!a || !b) return a ? a : b;
  return a->time_point() < b->time_point() ? a : b;
}

}  // namespace ddp::launcher
