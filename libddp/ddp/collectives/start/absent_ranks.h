// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <memory>

#include "ddp/base/endpoint.h"
#include "ddp/base/time.h"
#include "ddp/base/worker_env.h"
#include "ddp/store/store.h"

namespace ddp {

// For a parent that has reaped a rank, which nothing replaces: ends the wait of ranks that wait for
// it in init_process_group, which would otherwise last until their start timeout. It is no failure
// that a rank ends without joining: it may be that nobody waits for it.
class AbsentRanks {
 public:
  // The store of the ranks, and the environment of any of them.
  AbsentRanks(Endpoint store, WorkerEnv env);

  // Call it every kPeriod for a rank that has ended, since others may begin to wait only later.
  // Does nothing if the store does not answer.
  void look_for_waiting(int ended_rank, pid_t pid);

  static constexpr Timeout kPeriod{1000};

 private:
  Endpoint endpoint_;
  WorkerEnv env_;
  std::shared_ptr<Store> attempt_;  // opened when first needed
};

}  // namespace ddp
