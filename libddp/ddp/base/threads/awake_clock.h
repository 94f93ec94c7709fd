// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>

#include "ddp/base/time.h"

namespace ddp {

// A clock that stands still while this process is suspended, by SIGSTOP or with its container: in a
// suspended job the others are, too, and have not kept it waiting meanwhile. It takes two seconds
// without a look at it for a suspension, so whoever waits by it looks at it more often than that.
// Work that lasts longer between two looks is not counted either. For one thread. Waits that look
// more rarely use AwakeTimer.
class AwakeClock {
 public:
  // Deadlines are this clock's: only remaining() knows when they pass.
  [[nodiscard]] Deadline after(Timeout timeout) {
    look(Clock::now());
    return Deadline::after(timeout - suspended_);
  }
  // Never negative. `now` is for tests.
  [[nodiscard]] Timeout remaining(Deadline deadline, Clock::time_point now = Clock::now()) {
    look(now);
    const Clock::duration left = deadline.time_point() + suspended_ - now;
    return std::max(Timeout(0), std::chrono::ceil<Timeout>(left));
  }

 private:
  static constexpr Timeout kSuspension{2000};

  void look(Clock::time_point now) {
    const auto unseen = std::chrono::duration_cast<Timeout>(now - last_look_);
    if (unseen > kSuspension) suspended_ += unseen;
    last_look_ = now;
  }

  Clock::time_point last_look_ = Clock::now();
  Timeout suspended_{};
};

}  // namespace ddp
