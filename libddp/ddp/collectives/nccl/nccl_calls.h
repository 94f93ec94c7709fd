// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <nccl.h>

#include <span>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/nccl/nccl_api.h"

namespace ddp {

// What an NCCL call needs besides the operation.
struct NcclTarget {
  const NcclApi& nccl;
  ncclComm_t comm;
  cudaStream_t stream;
  int rank;
  int world_size;
  Buffer barrier_element;  // one element, for a barrier's all_reduce
};

// Enqueues checked operations on the stream; several start together. An average is enqueued as a
// sum. Throws CudaError.
void enqueue_on_nccl(std::span<const Collective> collectives, const NcclTarget& target);

}  // namespace ddp
