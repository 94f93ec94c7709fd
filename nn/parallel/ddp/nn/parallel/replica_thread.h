// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace ddp::nn {

// A thread that does one piece of work after the other: what it keeps per thread stays warm from
// step to step. start() and wait() are for one other thread.
class ReplicaThread {
 public:
  ReplicaThread();
  ~ReplicaThread();
  ReplicaThread(const ReplicaThread&) = delete;
  ReplicaThread& operator=(const ReplicaThread&) = delete;

  // Waits for the work before, whose exception, if nobody has asked for it, is dropped.
  void start(std::function<void()> work);
  // Until the work is done; throws what it has thrown.
  void wait();
  // Until the work is done, however it ends.
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
