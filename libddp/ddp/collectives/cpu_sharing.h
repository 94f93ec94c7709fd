// SPDX-License-Identifier: MIT
#pragma once

#include <sched.h>

#include <cstddef>
#include <span>

namespace ddp {

// The CPUs that this process may run on; none if the system does not tell.
[[nodiscard]] cpu_set_t allowed_cpus();

// True if that rank and all that may run on one of its CPUs have a CPU each, so that a rank that
// spins takes no time from the others. `allowed` holds the CPUs of each rank.
[[nodiscard]] bool has_cpu_to_spin_on(std::span<const cpu_set_t> allowed, std::size_t rank);

}  // namespace ddp
