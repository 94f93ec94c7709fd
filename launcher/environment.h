// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "ddp/base/socket.h"
#include "launcher/placement.h"

namespace ddp::launcher {

// What this node's workers share.
struct JobContext {
  int node_rank = 0;
  int node_count = 1;
  int local_world_size = 1;
  int first_rank = 0;  // of this node; the others follow
  int world_size = 1;
  int restart_count = 0;
  int max_restarts = 0;
  std::string role = "default";
  Endpoint store;
  bool agent_hosts_store = true;  // or rank 0 does
  std::string run_id;
  // DIR/<local rank>/error.json and crash.txt are for a worker's last words; empty: it has none.
  std::string error_directory;
  std::string step_file;  // where workers note their steps; empty: nowhere
  int usable_cpus = 1;
  std::vector<Placement> placements;  // by local rank; empty: nothing is said
  bool oversubscribe = false;         // workers may share GPUs
  bool on_one_host = true;            // all nodes are
  bool rank0_on_terminal = false;     // rank 0's output ends on a terminal, through our pipe
};

// "NAME=value" entries, as execve takes them.
using EnvironmentBlock = std::vector<std::string>;

// The environment contract of torchrun for one worker, over `inherited` (to_environment() in
// ddp/base/worker_env.h), with the threads and what is said of CUDA as the worker's placement has
// them. TORCHELASTIC_ERROR_FILE is where it may leave its error, DDP_LAUNCH_TTY=1 tells rank 0 that
// a progress bar is welcome although its stdout is a pipe, DDP_STEP_FILE where to note steps
// (ddp/base/step_file.h), DDP_CRASH_FILE where to say in which function it crashed
// (ddp/base/crash_record.h). With `oversubscribe`, unless inherited, what NCCL needs to let ranks
// share a GPU.
[[nodiscard]] EnvironmentBlock worker_environment(const EnvironmentBlock& inherited,
                                                  const JobContext& job, int local_rank);

// Of a worker's environment, the variables that it has through its launcher, or would have if they
// were not inherited.
[[nodiscard]] EnvironmentBlock contract_entries(const EnvironmentBlock& inherited,
                                                const JobContext& job, int local_rank);

// Of workers that are not kept on CPUs.
[[nodiscard]] int omp_threads_per_worker(const JobContext& job);

[[nodiscard]] Placement placement_of(const JobContext& job, int local_rank);

}  // namespace ddp::launcher
