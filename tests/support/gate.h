// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ddp::test {

// A counter that threads increase and wait for. A wait ends after ten seconds, so that a test with
// a wrong expectation fails instead of hanging.
class Gate {
 public:
  void raise() {
    const std::lock_guard lock(mutex_);
    ++count_;
    raised_.notify_all();
  }

  // False if the counter did not reach `count` in time.
  [[nodiscard]] bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return raised_.wait_for(lock, std::chrono::seconds(10), [&] { return count_ >= count; });
  }

  [[nodiscard]] int count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable raised_;
  int count_ = 0;
};

}  // namespace ddp::test
