// SPDX-License-Identifier: MIT
//
// Launchers that mpirun or srun started together are the nodes of one job: one node for each
// launcher, even if several run on one host.
#pragma once

#include <optional>
#include <string>

#include "ddp/base/scheduler_env.h"
#include "launcher/options/options.h"

namespace ddp::launcher {

// The launchers that were started with this one; nothing if it is alone, if --nnodes differs, or if
// it runs below another launcher. Throws LaunchError if PMI_SIZE tells of others, but neither other
// variables nor --nnodes do.
[[nodiscard]] std::optional<SchedulerEnv> fellow_launchers(std::optional<int> node_count,
                                                           const EnvReader::Lookup& environment);

// Fills in the number of nodes, where they meet and, unless flags set them, this node's rank and
// the job's id. With c10d, where nodes are numbered as they come, the rank stays open.
void join_fellows(const SchedulerEnv& fellows, NodeOptions& nodes);

// A remark if a batch script has several Slurm nodes but its job uses one; else empty.
[[nodiscard]] std::string remark_on_unused_nodes(const NodeOptions& nodes,
                                                 const EnvReader::Lookup& environment);

}  // namespace ddp::launcher
