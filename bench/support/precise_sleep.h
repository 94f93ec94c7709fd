// SPDX-License-Identifier: MIT
#pragma once

#include <sys/prctl.h>

#include <thread>

#include "ddp/base/time.h"

namespace ddp::bench {

// Sleeps without Linux's default timer slack, by which a thread may wake 50 us late.
inline void sleep_precisely_until(Clock::time_point time) {
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  std::this_thread::sleep_until(time);
}

}  // namespace ddp::bench
