// SPDX-License-Identifier: MIT
#include "ddp/collectives/peers/cpu_sharing.h"

#include <algorithm>

namespace ddp {

CpuSet cpu_set_of(const std::vector<int>& cpus) {
  CpuSet set;
  for (const int cpu : cpus) {
    if (const auto bit = static_cast<std::size_t>(cpu); bit < set.size()) set.set(bit);
  }
  return set;
}

double cpus_per_rank(std::span<const CpuSet> allowed, std::size_t rank,
                     std::optional<double> quota) {
  CpuSet together = allowed[rank];
  int sharers = 0;
  for (const CpuSet& other : allowed) {
    if ((other & allowed[rank]).none()) continue;
    together |= other;
    ++sharers;
  }
  if (sharers == 0) return 0;
  const double share = static_cast<double>(together.count()) / sharers;
  const auto ranks = static_cast<double>(allowed.size());
  return std::min(share, quota.value_or(share * ranks) / ranks);
}

}  // namespace ddp
