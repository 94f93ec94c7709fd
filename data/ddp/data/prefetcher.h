// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace ddp {

// Runs task(0), task(1), ... on its threads, while a consumer waits for them in that order. Tasks
// also begin in order. At most `window` tasks have begun and are not yet released by the consumer,
// so task k may reuse what task k - window used. Without threads, the consumer runs each task when
// it waits for it.
//
// One thread, the consumer, makes the public calls. Different tasks may run concurrently.
class Prefetcher {
 public:
  // What it makes is not used once it is cancelled, so it may then return early.
  using Task = std::function<void(std::int64_t step, const std::stop_token& cancelled)>;

  struct Options {
    int num_threads = 0;
    std::int64_t window = 1;
  };

  // Throws std::invalid_argument if an option makes no sense, SystemError if a thread cannot start.
  Prefetcher(const Options& options, Task task);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  // Cancels, and joins the threads. Logs a warning if that takes longer than a second, as a
  // DataLoader's, with what wait() has thrown since start().
  ~Prefetcher();

  // Cancels the current tasks, then begins with task(0) .. task(steps - 1).
  void start(std::int64_t steps);

  // Starts no further tasks, and returns when none is running.
  void cancel();

  // Returns when task(step) has run, and rethrows what it threw, at each call. `step` must be the
  // first step that is not released.
  void wait(std::int64_t step);

  // The consumer no longer needs what task(step) made.
  void release(std::int64_t step);

 private:
  struct Slot {
    bool done = false;
    std::exception_ptr error;
  };

  void start_threads(int count);
  void work();
  [[nodiscard]] bool can_begin() const;
  void run_next(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] Slot& slot(std::int64_t step);
  void stop();
  void warn_of_running();

  const Task task_;
  std::mutex mutex_;
  std::condition_variable may_begin_;
  std::condition_variable has_ended_;
  std::int64_t steps_ = 0;
  std::int64_t begun_ = 0;     // number of tasks begun
  std::int64_t released_ = 0;  // number of tasks released
  int running_ = 0;
  bool stopping_ = false;
  std::stop_source cancelled_;   // of the current tasks
  std::exception_ptr rethrown_;  // by wait(), of the current tasks
  std::vector<Slot> slots_;      // task k uses slot k mod window
  std::vector<std::thread> threads_;
};

}  // namespace ddp
