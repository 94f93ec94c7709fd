// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/collectives/peers/host_layout.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// Checks at the start that data arrives intact between the ranks' devices, by summing 1 MiB of
// known values: on some machines direct transfers between GPUs hang or deliver wrong values,
// because of the setup of PCIe or the IOMMU, and networks may be in the way. Throws CudaError on a
// rank that got wrong values, PeerError on the others, and TimeoutError if nothing arrived within
// the group's timeout, which is taken to be at least ten seconds and at most a minute: the first
// operation also connects the ranks and loads NCCL's kernels. Collective.
void try_first_all_reduce(ProcessGroup& group, const HostLayout& hosts);

}  // namespace ddp
