// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Where to read a process's control groups from; tests use their own.
struct CgroupSource {
  std::string membership;                // the text of /proc/self/cgroup
  std::string mount = "/sys/fs/cgroup";  // v2, or the folder of the v1 controllers

  static CgroupSource of_this_process();
};

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
