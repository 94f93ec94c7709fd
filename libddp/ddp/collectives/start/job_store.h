// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "ddp/base/time.h"
#include "ddp/base/worker_env.h"
#include "ddp/collectives/init.h"
#include "ddp/collectives/meeting/start_patience.h"
#include "ddp/store/store.h"

namespace ddp {

// The store in which the ranks of a job meet, as one of them reaches it.
struct JobStore {
  std::shared_ptr<Store> store;
  // This host's, on the connection to the store; empty for a store that the caller passed.
  std::string local_address = {};
  bool is_at_rank0 = false;  // rank 0 hosts it, and closes it with its own last client
};

// Connects to the store, while a thread logs whenever `patience` says so that there is no answer
// yet. Rank 0 hosts it first if no agent does, until its own clients are gone, and up to a second
// longer for the others. Throws TimeoutError that names the endpoint, or EnvironmentError if rank 0
// cannot host the store there.
[[nodiscard]] JobStore open_job_store(const InitOptions& options, const WorkerEnv& env,
                                      Timeout timeout, StartPatience& patience);

// The address at which peers reach this rank.
[[nodiscard]] std::string address_of(const InitOptions& options, const WorkerEnv& env,
                                     const JobStore& store, Timeout timeout);

}  // namespace ddp
