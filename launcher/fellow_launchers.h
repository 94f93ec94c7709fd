// SPDX-License-Identifier: MIT
//
// Launchers that mpirun or srun started together are the nodes of one job: as many as there are of
// them, also where several are on one host.
#pragma once

#include <optional>
#include <string>

#include "ddp/base/scheduler_env.h"
#include "launcher/cpu_list.h"
#include "launcher/options.h"

namespace ddp::launcher {

// All that were started with this one; nothing if it is alone, or if --nnodes gave another number.
[[nodiscard]] std::optional<SchedulerEnv> fellow_launchers(std::optional<int> node_count,
                                                           const EnvReader::Lookup& environment);

// Fills in how many nodes there are, where they meet, and, unless flags have said so, this one's
// rank and the job's id. Where nodes are numbered as they come (c10d) the rank is left open.
void join_fellows(const SchedulerEnv& fellows, NodeOptions& nodes);

// A sentence for the user whose mpirun, as it does by default, has bound this launcher to fewer
// CPUs than it has workers; or nothing.
[[nodiscard]] std::string remark_on_bound_launcher(int workers, const CpuList& allowed,
                                                   const EnvReader::Lookup& environment);

// A sentence for the user of a batch script on several Slurm nodes whose job has one; or nothing.
[[nodiscard]] std::string remark_on_unused_nodes(const NodeOptions& nodes,
                                                 const EnvReader::Lookup& environment);

}  // namespace ddp::launcher
