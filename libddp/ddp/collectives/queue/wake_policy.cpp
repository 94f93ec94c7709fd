// SPDX-License-Identifier: MIT
#include "ddp/collectives/queue/wake_policy.h"

#include <algorithm>

namespace ddp {

void WakePolicy::note_wait(Clock::duration after) {
  constexpr std::chrono::microseconds kAtOnce(20);
  if (after <= kAtOnce) {
    late_waits_ = std::max(0, late_waits_ - 1);
  } else if (cpus_per_rank_ > 1) {
    late_waits_ = kRemembered;
  } else {
    wants_load_ = true;
    if (const auto load = load_.end()) {
      late_waits_ = *load < cpus_per_rank_ / 2 ? kRemembered : 0;
    }
  }
}

// Measures the caller's load from here to its next late wait.
void WakePolicy::note_wait_ended() {
  if (!wants_load_) return;
  wants_load_ = false;
  load_.begin();
}

}  // namespace ddp
