// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "ddp/base/time.h"

namespace ddp {

// How long either end of a store connection looks for the other's next message before it sleeps.
inline constexpr std::chrono::microseconds kDefaultStoreSpin{50};

// A message on loopback comes within tens of microseconds, less than a sleeping thread needs to
// wake: look for it a while before sleeping. Between two looks whoever else wants this CPU may have
// it, for that may be the peer; but it may be a stranger, who keeps it for milliseconds. So there
// is a credit: a message found in time earns what sleeping would have cost, a search in vain costs
// the time it took, and without credit nobody looks for kPauseFactor times as long as was lost.
// Busy CPUs or a far peer thus take a bounded share of the time. Not thread-safe.
class Spin {
 public:
  // A limit of 0 never looks.
  explicit Spin(std::chrono::microseconds limit) : limit_(limit), credit_(kFirstCredit * limit) {}

  // Calls `arrived` until it is true, for at most the limit, or not at all when that does not pay.
  // Returns what the last call said.
  template <class F>
  [[nodiscard]] bool until(F&& arrived) {
    if (limit_ == Clock::duration::zero()) return false;
    const auto start = Clock::now();
    if (start < pause_end_) return false;
    auto now = start;
    bool found = false;
    while (!found && now - start < limit_) {
      std::this_thread::yield();
      found = arrived();
      now = Clock::now();
    }
    account(now, now - start);
    return found;
  }

 private:
  // Credits in limits. A success saves about two wake-ups of 10 us or more.
  static constexpr int kFirstCredit = 3;
  static constexpr int kMaxCredit = 100;
  static constexpr int kPauseFactor = 20;

  void account(Clock::time_point now, Clock::duration spent) {
    if (spent < limit_) {
      credit_ = std::min(credit_ + limit_ / 2, kMaxCredit * limit_);
      return;
    }
    credit_ -= spent;
    if (credit_ > Clock::duration::zero()) return;
    pause_end_ = now + kPauseFactor * (limit_ - credit_);
    credit_ = limit_;
  }

  Clock::duration limit_;
  Clock::duration credit_;
  Clock::time_point pause_end_{};
};

}  // namespace ddp
