// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/group_config.h"

namespace ddp {

// CPU ranks on any hosts. hosts[r] is the host of rank r of the job (config.job_ranks), equal for
// ranks that can share memory. If all ranks are on one host this is a shm group; if no two are, a
// tcp group; else a "shm+tcp" group: shared memory inside each host, TCP between the hosts
// (hierarchical_algorithms.h). split() and duplicate() choose likewise. `address` as for tcp.
// Collective: all ranks of `config` call it. world_size >= 2.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_hierarchical_process_group(GroupConfig config,
                                                                            std::vector<int> hosts,
                                                                            std::string address);

}  // namespace ddp
