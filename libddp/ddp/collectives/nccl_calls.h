// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <nccl.h>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/nccl_api.h"

namespace ddp {

// Where NCCL puts its work.
struct NcclTarget {
  const NcclApi& nccl;
  ncclComm_t comm;
  cudaStream_t stream;
  int rank;
  int world_size;
};

// Puts one checked operation on the stream. An average becomes a sum. Throws CudaError. A barrier
// is for the caller to replace, since it needs memory.
void enqueue_on_nccl(const Collective& collective, const NcclTarget& target);

}  // namespace ddp
