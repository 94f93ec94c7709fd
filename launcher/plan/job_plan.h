// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "launcher/options/options.h"
#include "launcher/plan/worker_plan.h"

namespace ddp::launcher {

// What is decided before anything starts.
struct JobPlan {
  WorkerPlan workers;
  JobLayout layout;                  // as far as it is known before the nodes meet
  std::vector<std::string> remarks;  // sentences for the user
};

// Examines this machine and its environment. Until the nodes have met, it assumes that all of them
// have as many workers as this one. Throws LaunchError.
[[nodiscard]] JobPlan plan_job(const Options& options);

// Throws LaunchError if --show names a rank that does not exist, or if --local_ranks_filter lets
// none of this node's workers through though there is no other node.
void check_shown_ranks(const LogOptions& logs, const JobLayout& layout);

// One sentence for --verbose.
[[nodiscard]] std::string describe_job(const WorkerPlan& plan, const JobLayout& layout);

}  // namespace ddp::launcher
