// SPDX-License-Identifier: MIT
#pragma once

#include <sched.h>

#include <cstddef>
#include <span>

namespace ddp {

// The CPUs that this process may run on; empty if the system does not tell.
[[nodiscard]] cpu_set_t allowed_cpus();

// The number of CPUs per rank, among `rank` and all ranks that may run on one of its CPUs; 0 if
// unknown. From 1 on, a spinning rank takes no time from the others; above 1, a second thread of a
// rank may have a CPU, too. `allowed` holds the CPUs of each rank.
[[nodiscard]] double cpus_per_rank(std::span<const cpu_set_t> allowed, std::size_t rank);

}  // namespace ddp
