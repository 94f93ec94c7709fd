// SPDX-License-Identifier: MIT
#include "launcher/options/fellow_launchers.h"

#include <fmt/core.h>

namespace ddp::launcher {

std::optional<SchedulerEnv> fellow_launchers(std::optional<int> node_count,
                                             const EnvReader::Lookup& environment) {
  if (node_count == 1) return std::nullopt;
  std::optional<SchedulerEnv> all = parse_scheduler_env(environment);
  if (!all || all->size == 1 || node_count.value_or(all->size) != all->size) return std::nullopt;
  return all;
}

void join_fellows(const SchedulerEnv& fellows, NodeOptions& nodes) {
  nodes.count = fellows.size;
  nodes.endpoint = fellows.meeting;
  nodes.on_one_host = fellows.is_on_one_host();
  if (!nodes.run_id && !fellows.run_id.empty()) nodes.run_id = fellows.run_id;
  const bool are_numbered = nodes.backend == NodeOptions::Backend::kStatic;
  if (are_numbered && !nodes.rank) nodes.rank = fellows.rank;
}

std::string remark_on_unused_nodes(const NodeOptions& nodes, const EnvReader::Lookup& environment) {
  const EnvReader env(environment);
  const int slurm_nodes = env.integer("SLURM_JOB_NUM_NODES", 1).value_or(1);
  if (nodes.count > 1 || slurm_nodes == 1 || env.has("SLURM_STEP_ID")) return "";
  return fmt::format(
      "this Slurm job has {} nodes, of which only this one is used; to use all of them: srun "
      "--ntasks-per-node=1 ddp-launch ...",
      slurm_nodes);
}

}  // namespace ddp::launcher
