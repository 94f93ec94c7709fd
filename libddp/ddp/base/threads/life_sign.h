// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

#include "ddp/base/time.h"

namespace ddp {

// Watches a counter that another process increments regularly. Between two looks at most
// `longest_gap` counts as silence of the other, so being stopped ourselves is not held against it.
class LifeSign {
 public:
  explicit LifeSign(Timeout longest_gap) : longest_gap_(longest_gap) {}

  // How long the counter has not moved. Call it more often than every longest_gap.
  Timeout silence(std::uint64_t heartbeat) {
    const Clock::time_point now = Clock::now();
    const auto elapsed = std::chrono::duration_cast<Timeout>(now - last_look_);
    const bool is_first = last_look_ == Clock::time_point();
    const bool moved = is_first || heartbeat_ != heartbeat;
    silence_ = moved ? Timeout(0) : silence_ + std::min<Timeout>(elapsed, longest_gap_);
    heartbeat_ = heartbeat;
    last_look_ = now;
    return silence_;
  }

 private:
  Timeout longest_gap_;
  std::uint64_t heartbeat_ = 0;
  Clock::time_point last_look_;
  Timeout silence_{};
};

}  // namespace ddp
