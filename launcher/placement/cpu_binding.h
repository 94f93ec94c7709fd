// SPDX-License-Identifier: MIT
//
// Chooses the CPUs that each worker is bound to. Memory is left to the kernel, which takes it from
// the node of the CPU that touches it first.
#pragma once

#include <optional>
#include <vector>

#include "launcher/placement/cpu_topology.h"

namespace ddp::launcher {

// Gives each worker its own share of the CPUs: adjacent whole cores, if possible of one node;
// shares differ by at most one core. With fewer cores than workers it distributes hyperthreads.
// Throws LaunchError if there are too few of those, too.
[[nodiscard]] std::vector<CpuList> bind_to_cores(const CpuTopology& topology, int workers);

// All CPUs of each worker's node, which several workers may share; if the node is unknown, all
// CPUs. Throws LaunchError if a node has no CPU.
[[nodiscard]] std::vector<CpuList> bind_to_nodes(const CpuTopology& topology,
                                                 const std::vector<std::optional<int>>& nodes);

}  // namespace ddp::launcher
