// SPDX-License-Identifier: MIT
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ddp {

// CPUs by number, in memory that processes share. Linux can be built for this many.
using CpuSet = std::bitset<8192>;

[[nodiscard]] CpuSet cpu_set_of(const std::vector<int>& cpus);

// The number of CPUs per rank, among `rank` and all ranks that may run on one of its CPUs. From 1
// on, a spinning rank takes no time from the others; above 1, a second thread of a rank may have a
// CPU, too. `allowed` holds the CPUs of each rank. The ranks are taken to share a CPU quota, if
// there is one; see cpu_count.h.
[[nodiscard]] double cpus_per_rank(std::span<const CpuSet> allowed, std::size_t rank,
                                   std::optional<double> quota);

}  // namespace ddp
