// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "ddp/base/threads/awake_timer.h"
#include "ddp/base/time.h"

namespace ddp {

// Watches a counter that another process increments regularly. Between two looks at most
// `longest_gap` counts as silence of the other, so being stopped ourselves is not held against it.
class LifeSign {
 public:
  explicit LifeSign(Timeout longest_gap) : timer_(longest_gap) {}

  // How long the counter has not moved. Call it more often than every longest_gap.
  Timeout silence(std::uint64_t heartbeat) {
    const Timeout now = timer_.look();
    if (!std::exchange(has_looked_, true) || heartbeat_ != heartbeat) moved_at_ = now;
    heartbeat_ = heartbeat;
    return now - moved_at_;
  }

 private:
  AwakeTimer timer_;
  bool has_looked_ = false;
  std::uint64_t heartbeat_ = 0;
  Timeout moved_at_{};
};

}  // namespace ddp
