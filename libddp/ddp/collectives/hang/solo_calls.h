// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace ddp {

// The calls, such as on_rank0, in which this rank runs a function while the other ranks of a group
// wait for it. A group shares one object with the groups that are made from it: a rank that waits
// in one of them does not come to the operations of another one. All methods are for any thread.
class SoloCalls {
 public:
  // Between begin() and end() on one thread the ranks `waiting` (of the job) wait for this one.
  // Calls nest.
  void begin(const char* where, std::vector<int> waiting);
  void end();

  // The calling thread's call for which one of these ranks of the job waits; null if there is none.
  // Another thread may well meet them, since they may have such a thread, too.
  [[nodiscard]] const char* keeps_away(std::span<const int> job_ranks) const;

 private:
  struct Call {
    std::thread::id thread;
    const char* where;
    std::vector<int> waiting;
  };

  std::atomic<int> count_ = 0;  // of calls_; spares the usual caller the lock
  mutable std::mutex mutex_;
  std::vector<Call> calls_;
};

}  // namespace ddp
