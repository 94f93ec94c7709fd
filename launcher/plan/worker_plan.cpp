// SPDX-License-Identifier: MIT
#include "launcher/plan/worker_plan.h"

namespace ddp::launcher {

Placement placement_of(const WorkerPlan& plan, int local_rank) {
  if (plan.placements.empty()) return {};
  return plan.placements.at(static_cast<std::size_t>(local_rank));
}

}  // namespace ddp::launcher
