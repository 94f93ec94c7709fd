// SPDX-License-Identifier: MIT
//
// A timeout is a duration and appears in interfaces. A deadline is a point in time, computed once
// where a call enters and passed down, so that retries and partial transfers share one budget.
#pragma once

#include <algorithm>
#include <chrono>

namespace ddp {

using Clock = std::chrono::steady_clock;
using Timeout = std::chrono::milliseconds;

// Longer timeouts are taken for this, which stands for none.
inline constexpr Timeout kLongestTimeout = std::chrono::hours(24 * 365);

// The time during which something ran.
struct Interval {
  Clock::time_point begin;
  Clock::time_point end;
};

class Deadline {
 public:
  static Deadline after(Timeout timeout) {
    return Deadline(Clock::now() + std::min(timeout, kLongestTimeout));
  }

  [[nodiscard]] bool passed() const { return Clock::now() >= when_; }

  // Never negative. Rounded up, so that a poll for this long does not wake early.
  [[nodiscard]] Timeout remaining() const {
    return std::max(Timeout(0), std::chrono::ceil<Timeout>(when_ - Clock::now()));
  }

  [[nodiscard]] Clock::time_point time_point() const { return when_; }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}

  Clock::time_point when_;
};

}  // namespace ddp
