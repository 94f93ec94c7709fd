// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "launcher/environment.h"
#include "launcher/generation.h"

namespace ddp::launcher {

// What --dry-run shows of a worker that it does not start.
struct PlannedWorker {
  int rank = 0;
  int local_rank = 0;
  std::string device = "-";  // "GPU 2"
  std::string cpus = "any";  // "0-3"
  std::vector<std::string> argv;
  EnvironmentBlock environment;  // of the contract with its launcher
};

// What this node's workers will be. A port, a run id or a path that is not chosen before the job
// starts is described in words.
[[nodiscard]] std::vector<PlannedWorker> preview(const WorkerPlan& plan, JobContext job);

// The workers as a table, then what they are told: first what is the same for all, then each one's
// own, in a form that a shell reads.
[[nodiscard]] std::string format_dry_run(const std::vector<PlannedWorker>& workers);

}  // namespace ddp::launcher
