// SPDX-License-Identifier: MIT
#include "launcher/options/fellow_launchers.h"

#include <fmt/core.h>

#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

// Batch scripts for other launchers set RANK, too.
bool is_below_launcher(const EnvReader& env) {
  return env.has("RANK") && env.has("TORCHELASTIC_RUN_ID");
}

// Launchers that each believe to be alone would train as many separate models.
void refuse_unknown_fellows(const EnvReader& env) {
  const int launchers = env.integer("PMI_SIZE", 0).value_or(1);
  if (launchers <= 1) return;
  throw LaunchError(
      fmt::format("PMI_SIZE={0}, but no variable tells this launcher how to meet the others that "
                  "were started with it: give --nnodes={0} --rdzv_backend=c10d "
                  "--rdzv_endpoint=HOST, with one of their hosts, or --standalone if each is to "
                  "run a job of its own",
                  launchers));
}

}  // namespace

std::optional<SchedulerEnv> fellow_launchers(std::optional<int> node_count,
                                             const EnvReader::Lookup& environment) {
  const EnvReader env(environment);
  if (node_count == 1 || is_below_launcher(env)) return std::nullopt;
  std::optional<SchedulerEnv> all = parse_scheduler_env(environment);
  if (!all && !node_count) refuse_unknown_fellows(env);
  if (!all || all->size == 1 || node_count.value_or(all->size) != all->size) return std::nullopt;
  return all;
}

void join_fellows(const SchedulerEnv& fellows, NodeOptions& nodes) {
  nodes.count = fellows.size;
  nodes.count_source =
      fellows.describe_size() + ", each of which counts as a node; alone: --standalone";
  nodes.endpoint = fellows.meeting;
  nodes.on_one_host = fellows.is_on_one_host();
  if (!nodes.run_id && !fellows.run_id.empty()) nodes.run_id = fellows.run_id;
  const bool are_numbered = nodes.backend == NodeOptions::Backend::kStatic;
  if (are_numbered && !nodes.rank) {
    nodes.rank = fellows.rank;
    nodes.doubt = fellows.doubt;
  }
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
