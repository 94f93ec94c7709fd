// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "ddp/collectives/group_config.h"

namespace ddp {

// A group of CUDA devices over NCCL, which is opened at the first use. All ranks of the group call
// it, each with its own connection to the store. Throws TimeoutError if they do not come together
// within config.start_timeout, CudaError if NCCL is missing (or not built in) or fails.
//
// An average is a sum that our own kernel divides afterwards: NCCL's average rounds 1 / world_size
// to the dtype and does not use its fastest paths. A float16 sum can overflow where the average
// would not; scale the loss down.
//
// A destroyed group waits for its operations, since another rank may be late for them, until their
// timeout; after an exception, or in the middle of a step of DistributedDataParallel, for a second.
// If one does not end, the group breaks on all ranks, and its communicator is aborted.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_nccl_process_group(GroupConfig config);

// "2.28.9": the loaded NCCL. Throws CudaError if NCCL is missing or not built in.
[[nodiscard]] std::string nccl_version();
// The file that the loaded NCCL came from.
[[nodiscard]] std::string nccl_path();

}  // namespace ddp
