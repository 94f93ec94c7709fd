// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/time.h"
#include "ddp/collectives/queue/caller_load.h"

namespace ddp {

// Whether to wake a queue's thread for an operation that a waiting caller could run as well.
//
// Waking the thread takes time, which is wasted if the caller waits at once. If there is no CPU for
// both, the thread also takes time from a caller that computes. So the thread is woken only if the
// caller did something else before one of its last such waits.
//
// Not thread-safe.
class WakePolicy {
 public:
  // The queue's thread has `cpus_per_rank` CPUs to share with its caller.
  explicit WakePolicy(double cpus_per_rank) : cpus_per_rank_(cpus_per_rank) {}

  [[nodiscard]] bool wakes() const { return late_waits_ > 0; }

  // The caller begins to wait for such an operation, `after` its submission.
  void note_wait(Clock::duration after);
  // A wait, for such an operation or another, has ended, and nothing else is submitted.
  void note_wait_ended();

 private:
  static constexpr int kRemembered = 64;

  double cpus_per_rank_;
  int late_waits_ = kRemembered;  // how many more waits the last late wait counts for
  bool wants_load_ = false;
  CallerLoad load_;
};

}  // namespace ddp
