// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <functional>
#include <string>

#include "ddp/collectives/failure/first_error.h"
#include "ddp/collectives/failure/peer_roll.h"
#include "ddp/collectives/nccl/nccl_communicator.h"

namespace ddp {

// What a rank does when CUDA or NCCL fails.
struct NcclActivity {
  std::string rank;  // such as "rank 1"
  std::string what;  // such as "#12 all_reduce(float32[5], sum) of group "default""
};

// Breaks a group after an error of CUDA or NCCL. When a peer dies, NCCL reports a broken connection
// at most, so this asks the PeerRoll which rank is missing, for half a second unless another rank
// reports first. With an answer, or if NCCL itself blames a peer, the error is a PeerError; else a
// CudaError.
void break_group(FirstError& first_error, PeerRoll& roll, const NcclActivity& activity,
                 const std::string& reason, bool blames_peer = false);

// The same for an error of NCCL's own threads, if there is one.
void look_for_async_error(NcclCommunicator& communicator, FirstError& first_error, PeerRoll& roll,
                          const std::function<NcclActivity()>& find_activity);

}  // namespace ddp
