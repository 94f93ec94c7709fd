// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/cpu_sharing.h"

namespace ddp {

cpu_set_t allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) CPU_ZERO(&allowed);
  return allowed;
}

double cpus_per_rank(std::span<const cpu_set_t> allowed, std::size_t rank) {
  cpu_set_t together;
  CPU_ZERO(&together);
  int sharers = 0;
  for (const cpu_set_t& other : allowed) {
    cpu_set_t common;
    CPU_AND(&common, &other, &allowed[rank]);
    if (CPU_COUNT(&common) == 0) continue;
    CPU_OR(&together, &together, &other);
    ++sharers;
  }
  return sharers == 0 ? 0 : static_cast<double>(CPU_COUNT(&together)) / sharers;
}

}  // namespace ddp
