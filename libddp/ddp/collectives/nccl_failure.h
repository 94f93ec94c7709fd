// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <string>

#include "ddp/collectives/first_error.h"
#include "ddp/collectives/nccl_communicator.h"
#include "ddp/collectives/peer_roll.h"

namespace ddp {

// Breaks a group over an error of CUDA or NCCL in `what`, such as "operations of group "default" on
// rank 0". Of a peer's death NCCL tells a broken connection at most, so that the roll is asked who
// is missing: half a second, unless another rank tells first. With an answer, and if NCCL blames a
// peer by itself, that is a PeerError; else a CudaError.
void break_group(FirstError& first_error, const PeerRoll& roll, const std::string& what,
                 const std::string& reason, bool blames_peer = false);

// The same over what NCCL's own threads ran into, if they did.
void look_for_async_error(NcclCommunicator& communicator, FirstError& first_error,
                          const PeerRoll& roll, const std::string& what);

}  // namespace ddp
