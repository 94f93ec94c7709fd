// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/nccl_failure.h"

#include "ddp/base/error.h"

namespace ddp {
namespace {

// A rank that has left may have done its part.
bool explains(const LostRank& lost, const PeerRoll& roll, const CollectiveSignature& call,
              bool blames_peer) {
  if (lost.fate != Fate::kLeft) return true;
  return call.sequence == 0 ? blames_peer : roll.left_before(lost.rank, call);
}

}  // namespace

void break_group(FirstError& first_error, PeerRoll& roll, const Activity& activity,
                 const std::string& reason, bool blames_peer) {
  const auto missing = roll.missing([&] { return first_error.poll(); });
  if (missing && explains(*missing, roll, activity.call, blames_peer)) {
    Activity failing = activity;
    failing.operation += ": " + reason;
    return first_error.set(PeerError(loss_sentence("[nccl]", *missing, failing)));
  }
  const std::string text = "[nccl] " + activity.operation + " on " + activity.rank + ": " + reason;
  if (blames_peer) return first_error.set(PeerError(text));
  first_error.set(CudaError(text));
}

void look_for_async_error(NcclCommunicator& communicator, FirstError& first_error, PeerRoll& roll,
                          const std::function<Activity()>& find_activity) {
  const ncclResult_t state = communicator.async_state();
  if (state == ncclSuccess || state == ncclInProgress) return;
  break_group(first_error, roll, find_activity(), error_text(communicator.api(), state),
              state == ncclRemoteError);
}

}  // namespace ddp
