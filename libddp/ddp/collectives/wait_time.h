// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/time.h"

namespace ddp {

// Counts its lifetime as time in which the calling thread waits for other ranks; within another
// one's lifetime it counts nothing more.
class [[nodiscard]] WaitTimer {
 public:
  WaitTimer() noexcept;
  ~WaitTimer();
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;
};

// How long the calling thread has waited so far, in all groups. The difference of two readings
// tells how much of the time between them was spent so.
[[nodiscard]] Clock::duration time_waited() noexcept;

}  // namespace ddp
