// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>

#include "ddp/base/time.h"

namespace ddp {

// The time since its construction, of which a suspension of this process, by SIGSTOP or with its
// container, counts little: of each gap between two looks at most `longest_gap`. Look at it more
// often than that. For one thread. For waits whose looks are seconds apart; AwakeClock, for those
// of collectives, is looked at all the time, and counts nothing of a suspension.
class AwakeTimer {
 public:
  static constexpr Timeout kLongestGap{10'000};

  explicit AwakeTimer(Timeout longest_gap = kLongestGap) : longest_gap_(longest_gap) {}

  // `now` is for tests.
  Timeout look(Clock::time_point now = Clock::now()) {
    passed_ += std::min<Clock::duration>(now - last_look_, longest_gap_);
    last_look_ = now;
    return passed();
  }
  // The time at the last look.
  [[nodiscard]] Timeout passed() const { return std::chrono::duration_cast<Timeout>(passed_); }

 private:
  Timeout longest_gap_;
  Clock::time_point last_look_ = Clock::now();
  Clock::duration passed_{};
};

}  // namespace ddp
