// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Where the control groups of a process are read from; tests bring their own.
struct CgroupSource {
  std::string membership;                // the text of /proc/self/cgroup
  std::string mount = "/sys/fs/cgroup";  // v2, or the folder of the v1 controllers

  static CgroupSource of_this_process();
};

// The tightest CPU quota, in CPUs, on the way from the process's group to the root; version 1 and
// 2 are read. Nothing if there is no quota.
[[nodiscard]] std::optional<double> cpu_quota(const CgroupSource& source);

// The numbers of those in this process's affinity mask, ascending.
[[nodiscard]] std::vector<int> affinity_cpus();

// CPUs that this process may use: its affinity mask, cut by the quota (rounded down: a thread too
// many makes all of them wait), at least 1.
[[nodiscard]] int usable_cpus();
[[nodiscard]] int usable_cpus(int affinity, std::optional<double> quota);

// Each one's share, at least 1: how many threads a worker is to compute with.
[[nodiscard]] int cpus_per_worker(int cpus, int workers);

}  // namespace ddp
