// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>

#include "ddp/base/time.h"

namespace ddp {

// A clock that stands still while this process is suspended, by SIGSTOP or with its container: in a
// suspended job the others are, too, and have not kept it waiting meanwhile. Whoever waits by it
// does so in turns of less than a second. For one thread.
class AwakeClock {
 public:
  // Deadlines are this clock's: only remaining() knows when they pass.
  [[nodiscard]] Deadline after(Timeout timeout) const {
    return Deadline::after(timeout - suspended_);
  }
  // Never negative.
  [[nodiscard]] Timeout remaining(Deadline deadline) const {
    const Clock::duration left = deadline.time_point() + suspended_ - Clock::now();
    return std::max(Timeout(0), std::chrono::ceil<Timeout>(left));
  }
  // A turn has ended.
  void note_turn(Clock::time_point begin) {
    const auto length = std::chrono::duration_cast<Timeout>(Clock::now() - begin);
    if (length > kSuspension) suspended_ += length;
  }

 private:
  static constexpr Timeout kSuspension{2000};

  Timeout suspended_{};
};

}  // namespace ddp
