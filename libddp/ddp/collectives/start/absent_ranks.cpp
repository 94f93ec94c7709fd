// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/absent_ranks.h"

#include <fmt/core.h>

#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/collectives/start/agreement.h"
#include "ddp/collectives/start/rendezvous.h"
#include "ddp/store/tcp_store.h"

namespace ddp {

AbsentRanks::AbsentRanks(Endpoint store, WorkerEnv env)
    : endpoint_(std::move(store)), env_(std::move(env)) {}

void AbsentRanks::look_for_waiting(int ended_rank, pid_t pid) try {
  if (!attempt_) {
    attempt_ =
        store_of_attempt(std::make_shared<TcpStore>(endpoint_, kBackgroundStoreTimeout), env_);
  }
  refuse_initialisation_without(
      *attempt_, ended_rank, env_.world_size,
      fmt::format("[init] rank {} (pid {}) has ended with code 0 and will not come to this "
                  "init_process_group, which all {} ranks must call",
                  ended_rank, pid, env_.world_size));
} catch (const Error& error) {
  logging::debug("[spawn] cannot look for ranks that wait for an ended one: " + describe(error));
}

}  // namespace ddp
