// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "launcher/environment.h"
#include "launcher/generation.h"
#include "launcher/options.h"

namespace ddp::launcher {

// What is decided before anything starts.
struct JobPlan {
  WorkerPlan workers;
  JobContext job;                    // as far as this launcher knows it before the nodes meet
  std::vector<std::string> remarks;  // sentences for the user
};

// Looks at this machine and its environment. Until the nodes have met, all of them are taken to
// have as many workers as this one. Throws LaunchError.
[[nodiscard]] JobPlan plan_job(const Options& options);

// --show names ranks that there are.
void check_shown_ranks(const Show& show, int world_size);

// One sentence for --verbose.
[[nodiscard]] std::string describe_job(const WorkerPlan& workers, const JobContext& job);

}  // namespace ddp::launcher
