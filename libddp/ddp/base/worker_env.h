// SPDX-License-Identifier: MIT
//
// The environment contract between a launcher and a worker, as torchrun defines it
// (https://pytorch.org/docs/stable/elastic/run.html#environment-variables), read once.
#pragma once

#include <string>

#include "ddp/base/env_reader.h"
#include "ddp/base/socket.h"

namespace ddp {

struct WorkerEnv {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;               // GROUP_RANK
  Endpoint master;                 // MASTER_ADDR, MASTER_PORT; empty in a world of one
  int restart_count = 0;           // TORCHELASTIC_RESTART_COUNT
  std::string run_id = "none";     // TORCHELASTIC_RUN_ID
  bool agent_hosts_store = false;  // TORCHELASTIC_USE_AGENT_STORE
  bool shares_gpus = false;        // DDP_OVERSUBSCRIBE: more workers than GPUs, on purpose

  using Lookup = EnvReader::Lookup;

  // Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (all four, or none), and the optional rest.
  // LOCAL_RANK and LOCAL_WORLD_SIZE come together; without them every rank is taken to be on this
  // host. Without RANK it is a world of one, or as many as mpirun or srun started
  // (scheduler_env.h). Throws EnvironmentError naming variable and value if one is missing,
  // unparsable or contradictory, or if there are several processes that cannot find each other.
  static WorkerEnv from_environment();
  static WorkerEnv parse(const Lookup& lookup);
};

}  // namespace ddp
