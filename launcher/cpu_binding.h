// SPDX-License-Identifier: MIT
//
// Which CPUs each worker is kept on. Memory is left to the kernel, which takes it from the node of
// the CPU that touches it first.
#pragma once

#include <optional>
#include <vector>

#include "launcher/cpu_topology.h"

namespace ddp::launcher {

// A share for each worker, none in two of them: whole cores, next to each other and as far as
// possible of one node, equally many up to one. Where there are fewer cores than workers,
// hyperthreads are dealt out. Throws LaunchError if there are too few of those as well.
[[nodiscard]] std::vector<CpuList> bind_to_cores(const CpuTopology& topology, int workers);

// All CPUs of each worker's node, which it may share with others; where the node is not known, all.
// Throws LaunchError if a node has none.
[[nodiscard]] std::vector<CpuList> bind_to_nodes(const CpuTopology& topology,
                                                 const std::vector<std::optional<int>>& nodes);

}  // namespace ddp::launcher
