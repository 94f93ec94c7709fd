// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/nccl_failure.h"

#include "ddp/base/error.h"

namespace ddp {
namespace {

// Whether a rank that has left owes its part of what this rank has submitted. The operation in
// which the error was noticed may be an earlier one, which is not known to be done yet.
bool owes(int rank, const PeerRoll& roll, const FlightRecorder& recorder,
          const Activity& activity) {
  const std::uint64_t last = recorder.position().collectives;
  return roll.left_before(rank, {.sequence = last, .kind = activity.call.kind});
}

}  // namespace

void break_group(FirstError& first_error, PeerRoll& roll, const FlightRecorder& recorder,
                 const Activity& activity, const std::string& reason, bool blames_peer) {
  const auto missing = roll.missing([&] { return first_error.poll(); });
  const bool is_of_peer = missing && (blames_peer || missing->fate != Fate::kLeft ||
                                      owes(missing->rank, roll, recorder, activity));
  if (is_of_peer) {
    Activity failing = activity;
    failing.operation += ": " + reason;
    return first_error.set(PeerError(loss_sentence("[nccl]", *missing, failing)));
  }
  const std::string text = "[nccl] " + activity.operation + " on " + activity.rank + ": " + reason;
  if (blames_peer) return first_error.set(PeerError(text));
  first_error.set(CudaError(text));
}

void look_for_async_error(NcclCommunicator& communicator, FirstError& first_error, PeerRoll& roll,
                          const FlightRecorder& recorder,
                          const std::function<Activity()>& find_activity) {
  const ncclResult_t state = communicator.async_state();
  if (state == ncclSuccess || state == ncclInProgress) return;
  break_group(first_error, roll, recorder, find_activity(), error_text(communicator.api(), state),
              state == ncclRemoteError);
}

}  // namespace ddp
