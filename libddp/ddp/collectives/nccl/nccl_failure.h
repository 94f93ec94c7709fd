// SPDX-License-Identifier: MIT
//
// For sources compiled with CUDA only.
#pragma once

#include <functional>
#include <string>

#include "ddp/collectives/failure/failure_sentences.h"
#include "ddp/collectives/failure/first_error.h"
#include "ddp/collectives/failure/peer_roll.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/nccl/nccl_communicator.h"

namespace ddp {

// Breaks a group after an error of CUDA or NCCL. When a peer dies, NCCL reports a broken connection
// at most, so this asks the PeerRoll which rank is missing, for half a second unless another rank
// reports first. If that rank died, or left without its part of what this rank has submitted, or
// if NCCL itself blames a peer, the error is a PeerError; else a CudaError.
void break_group(FirstError& first_error, PeerRoll& roll, const FlightRecorder& recorder,
                 const Activity& activity, const std::string& reason, bool blames_peer = false);

// The same for an error of NCCL's own threads, if there is one.
void look_for_async_error(NcclCommunicator& communicator, FirstError& first_error, PeerRoll& roll,
                          const FlightRecorder& recorder,
                          const std::function<Activity()>& find_activity);

}  // namespace ddp
