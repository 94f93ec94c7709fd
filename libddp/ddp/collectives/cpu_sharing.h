// SPDX-License-Identifier: MIT
#pragma once

#include <sched.h>

#include <cstddef>
#include <span>

namespace ddp {

// The CPUs that this process may run on; none if the system does not tell.
[[nodiscard]] cpu_set_t allowed_cpus();

// How many CPUs there are for each of that rank and all that may run on one of its CPUs; 0 if none
// are known. From 1 on a rank that spins takes no time from the others, above 1 a second thread of
// a rank may have a CPU as well. `allowed` holds the CPUs of each rank.
[[nodiscard]] double cpus_per_rank(std::span<const cpu_set_t> allowed, std::size_t rank);

}  // namespace ddp
