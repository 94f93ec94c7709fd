// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/worker_plan.h"

namespace ddp::launcher {

// A worker as --dry-run shows it, without starting it.
struct PlannedWorker {
  int rank = 0;
  int local_rank = 0;
  std::string device = "-";  // "GPU 2"
  std::string cpus = "any";  // "0-3"
  std::vector<std::string> argv;
  EnvironmentBlock environment;  // the variables that the launcher sets
};

// The workers of this node. A port, a run id or a path that is chosen only when the job starts is
// described in words.
[[nodiscard]] std::vector<PlannedWorker> preview(const WorkerPlan& plan, JobLayout layout);

// The workers as a table, then their environment: first the variables that all share, then those of
// each worker, in a form that a shell can read.
[[nodiscard]] std::string format_dry_run(const std::vector<PlannedWorker>& workers);

}  // namespace ddp::launcher
