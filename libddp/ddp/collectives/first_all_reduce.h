// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/collectives/process_group.h"

namespace ddp {

// Makes sure, before there is anything to lose, that data comes through between the ranks'
// devices: adds up 1 MiB of known values. There are machines on which direct transfers between
// GPUs hang, or bring wrong values, because of how PCIe or the IOMMU are set up. Throws
// CudaError on a rank that got wrong values, PeerError on the others, and TimeoutError if
// nothing came within the group's timeout, but at least ten seconds and at most a minute: the first
// operation also connects the ranks and loads NCCL's kernels, for which nobody chose that timeout.
// Collective.
void try_first_all_reduce(ProcessGroup& group);

}  // namespace ddp
