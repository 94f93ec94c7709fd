// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "ddp/base/device.h"

namespace ddp::nn {

// A thread that does one piece of work after the other, so that its thread-local caches stay warm
// from step to step. One other thread calls start() and wait().
class ReplicaThread {
 public:
  // Makes the device the thread's current one, if it can.
  explicit ReplicaThread(Device device);
  ~ReplicaThread();
  ReplicaThread(const ReplicaThread&) = delete;
  ReplicaThread& operator=(const ReplicaThread&) = delete;

  // Waits for the previous work first, and drops its exception if no wait() has rethrown it.
  void start(std::function<void()> work);
  // Waits until the work is done, and rethrows its exception.
  void wait();
  // Waits until the work is done, and ignores its exception.
  void finish();

 private:
  void run();
  void wait_until_idle(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // empty: idle
  std::exception_ptr error_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace ddp::nn
