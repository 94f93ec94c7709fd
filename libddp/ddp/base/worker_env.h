// SPDX-License-Identifier: MIT
//
// The environment variables by which a launcher tells a worker its place, as torchrun defines them
// (https://pytorch.org/docs/stable/elastic/run.html#environment-variables). A worker reads them
// once; ddp-launch and spawn() write them.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/env_reader.h"

namespace ddp {

// A collective's root has 16 bits in the signatures that ranks compare (collective.h).
inline constexpr int kMaxWorldSize = 65536;

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
  // Information from the launcher for the program; libddp does not use it.
  int node_count = 1;            // GROUP_WORLD_SIZE
  int max_restarts = 0;          // TORCHELASTIC_MAX_RESTARTS
  std::string role = "default";  // ROLE_NAME
  // For messages: who said that there are world_size ranks, and how to be alone; empty: WORLD_SIZE.
  std::string size_source = {};
  std::string master_source = {};  // for messages: "mpirun" or "srun"; empty: MASTER_ADDR

  using Lookup = EnvReader::Lookup;

  // Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (all four or none) and the optional
  // variables. LOCAL_RANK and LOCAL_WORLD_SIZE come together; without them every rank is assumed to
  // be on this host. Without RANK, the world is what mpirun or srun started (scheduler_env.h), or
  // else one process. Throws EnvironmentError with variable and value if one is missing, unparsable
  // or contradictory, or if there are several processes that have no way to find each other.
  static WorkerEnv from_environment();
  static WorkerEnv parse(const Lookup& lookup);
};

using EnvironmentVariable = std::pair<std::string, std::string>;

// What a launcher changes in the environment that its workers inherit.
struct EnvironmentChanges {
  std::vector<EnvironmentVariable> set;
  std::vector<EnvironmentVariable> set_if_missing;
  std::vector<std::string> unset;  // set by an outer launcher; wrong for these workers
};

// The changes after which parse() in a worker returns `env`, and OpenMP uses `omp_threads` threads.
// TORCHELASTIC_ERROR_FILE is empty (no file) until the launcher sets it to a file of the worker's.
// `inherited` reads the environment that is to be changed.
[[nodiscard]] EnvironmentChanges to_environment(const WorkerEnv& env, int omp_threads,
                                                const WorkerEnv::Lookup& inherited = ::getenv);

}  // namespace ddp
