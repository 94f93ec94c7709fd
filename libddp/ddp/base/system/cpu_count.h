// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <vector>

#include "ddp/base/system/cgroup.h"

namespace ddp {

// The tightest CPU quota, in CPUs, from the process's group up to the root, for cgroup versions 1
// and 2. Returns nothing if there is no quota.
[[nodiscard]] std::optional<double> cpu_quota(const CgroupSource& source);

// The CPUs in this process's affinity mask, ascending.
[[nodiscard]] std::vector<int> affinity_cpus();

// The number of CPUs that this process may use: its affinity mask, limited by the quota (rounded
// down, since one thread too many makes all of them wait); at least 1.
[[nodiscard]] int usable_cpus();
[[nodiscard]] int usable_cpus(int affinity, std::optional<double> quota);

// Each worker's share, at least 1: the number of threads that it should compute with.
[[nodiscard]] int cpus_per_worker(int cpus, int workers);

}  // namespace ddp
