// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <mutex>

#include "ddp/base/time.h"

namespace ddp {

// A mutex whose lock can be waited for until a deadline of the steady clock; works with
// std::unique_lock and std::lock_guard. It replaces std::timed_mutex because ThreadSanitizer only
// intercepts its wait by the system clock, and a step of that clock would move the deadline.
class TimedMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [this] { return !is_held_; });
    is_held_ = true;
  }

  [[nodiscard]] bool try_lock_until(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    if (!released_.wait_until(lock, deadline, [this] { return !is_held_; })) return false;
    is_held_ = true;
    return true;
  }

  void unlock() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    released_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  bool is_held_ = false;
};

}  // namespace ddp
