// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "ddp/collectives/process_group.h"

namespace ddp {

// A group of CUDA devices over NCCL, which is opened at the first use. All ranks of the group call
// it with a store of their own. Throws TimeoutError if they do not come together within
// config.start_timeout, CudaError if NCCL is missing (or not built in) or fails.
//
// Averages are sums that a kernel of ours divides afterwards: NCCL's own average rounds
// 1 / world_size to the dtype and forgoes its fastest paths. A float16 sum can overflow where the
// average would not: scale the loss down.
//
// A group that is destroyed waits up to a second for its own work, then tells its peers and aborts.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_nccl_process_group(GroupConfig config);

// "2.28.9": what this process has loaded. Throws CudaError if NCCL is missing or not built in.
[[nodiscard]] std::string nccl_version();
// The file that it came from.
[[nodiscard]] std::string nccl_path();

}  // namespace ddp
