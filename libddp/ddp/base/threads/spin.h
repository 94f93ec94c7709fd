// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "ddp/base/time.h"

namespace ddp {

// Polls for an event of another process for a short time before the caller goes to sleep: on one
// host it often comes sooner than a sleeping thread can be woken.
//
// Between two polls the thread yields its CPU, because the other process may need it; but a third
// one may then keep the CPU for milliseconds. A credit therefore bounds the cost. An event found in
// time adds the time that sleeping would have cost, and a futile poll subtracts the time it took.
// When the credit is used up, polling stops for kPauseFactor times as long as was lost. Not
// thread-safe.
class Spin {
 public:
  // With a limit of 0 it never polls.
  explicit Spin(std::chrono::microseconds limit) : limit_(limit), credit_(kFirstCredit * limit) {}

  // Calls `arrived` until it returns true, for at most the limit; does not call it while polling is
  // paused. Returns the last result of `arrived`, or false.
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
