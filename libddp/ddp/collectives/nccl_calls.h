// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <nccl.h>

#include <span>

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
  Buffer barrier_element;  // one element, for what a barrier is made of: its all_reduce
};

// Puts checked operations on the stream, where several start together. An average becomes a sum.
// Throws CudaError.
void enqueue_on_nccl(std::span<const Collective> collectives, const NcclTarget& target);

}  // namespace ddp
