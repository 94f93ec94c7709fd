// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "ddp/base/socket.h"
#include "launcher/placement.h"

namespace ddp::launcher {

// What all workers of this node have in common.
struct JobContext {
  int node_rank = 0;
  int node_count = 1;
  int local_world_size = 1;
  int first_rank = 0;  // of this node; its other ranks follow
  int world_size = 1;
  int restart_count = 0;
  int max_restarts = 0;
  std::string role = "default";
  Endpoint store;
  bool agent_hosts_store = true;  // otherwise rank 0 does
  std::string run_id;
  // DIR/<local rank>/error.json and crash.txt take a worker's error and crash records; empty: none.
  std::string error_directory;
  std::string step_file;  // where workers record their steps; empty: nowhere
  int usable_cpus = 1;
  std::vector<Placement> placements;  // by local rank; empty: no placement
  bool oversubscribe = false;         // workers may share GPUs
  bool on_one_host = true;            // all nodes are
  bool rank0_on_terminal = false;     // rank 0's output ends on a terminal, through our pipe
};

// "NAME=value" entries, as execve takes them.
using EnvironmentBlock = std::vector<std::string>;

// The environment of one worker: torchrun's contract over `inherited` (to_environment() in
// ddp/base/worker_env.h), with OMP_NUM_THREADS and CUDA variables from the worker's placement.
// TORCHELASTIC_ERROR_FILE is the file for its error record, DDP_STEP_FILE for its steps
// (ddp/base/step_file.h), DDP_CRASH_FILE for its crash record (ddp/base/crash_record.h).
// DDP_LAUNCH_TTY=1 tells rank 0 to draw a progress bar although its stdout is a pipe. With
// `oversubscribe`, it also has what NCCL needs to let ranks share a GPU, unless inherited.
[[nodiscard]] EnvironmentBlock worker_environment(const EnvironmentBlock& inherited,
                                                  const JobContext& job, int local_rank);

// The part of a worker's environment that its launcher sets, or would set if it were not inherited.
[[nodiscard]] EnvironmentBlock contract_entries(const EnvironmentBlock& inherited,
                                                const JobContext& job, int local_rank);

// The threads of a worker that is not bound to CPUs.
[[nodiscard]] int omp_threads_per_worker(const JobContext& job);

[[nodiscard]] Placement placement_of(const JobContext& job, int local_rank);

}  // namespace ddp::launcher
