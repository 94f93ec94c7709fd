// SPDX-License-Identifier: MIT
//
// What the launcher knows about the workers, and from when on: the plan before anything starts, the
// layout once the nodes have met, and an attempt when its workers start.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/time.h"
#include "launcher/options/command.h"
#include "launcher/options/options.h"
#include "launcher/placement/placement.h"
#include "launcher/plan/attempt_folder.h"

namespace ddp::launcher {

// "NAME=value" entries, as execve takes them.
using EnvironmentBlock = std::vector<std::string>;

// The same for all workers of this node and all attempts.
struct WorkerPlan {
  Command command;
  EnvironmentBlock environment = {};       // what the workers inherit
  std::optional<rlimit> descriptors = {};  // limit of open files in a worker; nothing: ours
  LogOptions logs = {};
  StoreHost store_host = StoreHost::kAgent;
  std::string role = "default";
  int max_restarts = 0;
  int usable_cpus = 1;
  std::vector<Placement> placements = {};  // by local rank; empty: no placement
  bool oversubscribe = false;              // workers may share GPUs
  std::string rank0_terminal = {};  // the one that shows rank 0's output, through our pipe, if any
  // The time between SIGTERM, or SIGUSR1 from outside, and SIGKILL.
  Timeout failure_grace{2000};
  Timeout keyboard_grace{3000};
  Timeout outside_grace{30000};  // for a signal from a scheduler or a terminal that closes
  // Called when the workers of an attempt have started; for a detached job only.
  std::function<void()> on_start = {};
  bool verbose = false;

  [[nodiscard]] bool is_detached() const { return on_start != nullptr; }
};

// The job's nodes and ranks, as this node sees them.
struct JobLayout {
  int node_rank = 0;
  int node_count = 1;
  int local_world_size = 1;
  int first_rank = 0;  // of this node; its other ranks follow
  int world_size = 1;
  Endpoint store = {};
  std::string run_id = {};
  // Of this launcher's run alone, which a run id that the user or a scheduler chose may not be.
  std::string launch_id = {};
  bool on_one_host = true;  // whether all nodes are on one host
};

struct Attempt {
  int restart_count = 0;
  AttemptFolder folder = {};
  std::string worker_slots = {};  // path of the memory of WorkerSlots; empty: none
};

[[nodiscard]] Placement placement_of(const WorkerPlan& plan, int local_rank);

}  // namespace ddp::launcher
