// SPDX-License-Identifier: MIT
#pragma once

#include <thread>

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

// How long a thread has waited so far, in all groups.
struct TimeWaited {
  std::thread::id thread = {};
  Clock::duration total = {};
};

// Of the calling thread.
[[nodiscard]] TimeWaited time_waited() noexcept;

// How much of the time between two readings was spent so; 0 if they are of different threads.
[[nodiscard]] Clock::duration waited_between(const TimeWaited& begin,
                                             const TimeWaited& end) noexcept;

}  // namespace ddp
