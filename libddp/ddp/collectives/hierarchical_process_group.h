// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"

namespace ddp {

// CPU ranks wherever they are. hosts[r] is the host of rank r of the job (config.job_ranks), equal
// for ranks that can share memory. All on one host are a shm group, no two on one host a gloo
// group, and the others a "shm+gloo" group: shared memory inside each host, TCP between the hosts
// (hierarchical_algorithms.h tells how). What is made of it by split() or duplicate() chooses
// likewise. `address` as for gloo. Collective: all ranks of `config` call it. world_size >= 2.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_hierarchical_process_group(GroupConfig config,
                                                                            std::vector<int> hosts,
                                                                            std::string address);

}  // namespace ddp
