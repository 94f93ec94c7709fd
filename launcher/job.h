// SPDX-License-Identifier: MIT
#pragma once

#include "launcher/console.h"
#include "launcher/other_nodes.h"
#include "launcher/run_folder.h"
#include "launcher/signals.h"
#include "launcher/worker_plan.h"

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
