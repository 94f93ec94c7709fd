// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "ddp/base/time.h"

namespace ddp {

// A mutex whose lock can be waited for until a deadline of the steady clock; works with
// std::unique_lock and std::lock_guard. It replaces std::timed_mutex because ThreadSanitizer only
// intercepts its wait by the system clock, and a step of that clock would move the deadline.
//
// Without contention, locking and unlocking are an exchange and a store of an atomic. It must not
// be destroyed before every unlock() has returned.
class TimedMutex {
 public:
  void lock() {
    if (try_lock()) return;
    const Waiting waiting(waiting_);
    std::unique_lock lock(mutex_);
    released_.wait(lock, [this] { return try_lock(); });
  }

  [[nodiscard]] bool try_lock_until(Clock::time_point deadline) {
    if (try_lock()) return true;
    const Waiting waiting(waiting_);
    std::unique_lock lock(mutex_);
    return released_.wait_until(lock, deadline, [this] { return try_lock(); });
  }

  // A thread that waits counts itself before it tries, and this looks for it after the release; so
  // either that thread gets the lock, or it is seen here. Holding the mutex for a moment makes sure
  // that it has begun to wait.
  void unlock() {
    is_held_.store(false);
    if (waiting_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    released_.notify_one();
  }

 private:
  class Waiting {
   public:
    explicit Waiting(std::atomic<int>& count) : count_(count) { ++count_; }
    ~Waiting() { --count_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::atomic<int>& count_;
  };

  [[nodiscard]] bool try_lock() { return !is_held_.exchange(true); }

  std::atomic<bool> is_held_ = false;
  std::atomic<int> waiting_ = 0;  // threads that did not get the lock at once
  std::mutex mutex_;              // for released_ only
  std::condition_variable released_;
};

}  // namespace ddp
