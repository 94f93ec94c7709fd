// SPDX-License-Identifier: MIT
#pragma once

#include "launcher/nodes/other_nodes.h"
#include "launcher/output/console.h"
#include "launcher/plan/worker_plan.h"
#include "launcher/processes/signals.h"
#include "launcher/run/run_folder.h"

namespace ddp::launcher {

// What a launcher works with once the nodes have met. All of it outlives the job.
struct Job {
  const WorkerPlan& plan;
  const JobLayout& layout;
  RunFolder& files;
  SignalReader& signals;
  Console& console;
  OtherNodes& nodes;
};

}  // namespace ddp::launcher
