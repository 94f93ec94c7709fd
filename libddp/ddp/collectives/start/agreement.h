// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/base/time.h"
#include "ddp/base/worker_env.h"
#include "ddp/collectives/init.h"
#include "ddp/collectives/meeting/start_patience.h"
#include "ddp/collectives/start/hello.h"
#include "ddp/collectives/start/job_store.h"
#include "ddp/collectives/start/rendezvous.h"
#include "ddp/store/store.h"

namespace ddp {

// What the ranks have agreed on, and the part of the store for this initialisation.
struct Agreement {
  JobStore job;
  std::shared_ptr<Store> store;
  Plan plan;
};

// The part of a job's store that is for its current attempt (rendezvous.h).
[[nodiscard]] std::shared_ptr<Store> store_of_attempt(const std::shared_ptr<Store>& store,
                                                      const WorkerEnv& env);

// Opens the job's store and agrees with the other ranks; anew as long as that store turns out to be
// one of an earlier group, which rank 0 is just closing. Throws what open_job_store, claim_rank and
// agree_on_plan throw, EnvironmentError if this process is of an earlier attempt than the others,
// and NetworkError if the store is lost.
[[nodiscard]] Agreement agree(const InitOptions& options, const Hello& self, const WorkerEnv& env,
                              Timeout start_timeout, StartPatience& patience);

}  // namespace ddp
