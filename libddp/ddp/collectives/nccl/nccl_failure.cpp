// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/nccl_failure.h"

#include "ddp/base/error.h"

namespace ddp {

void break_group(FirstError& first_error, PeerRoll& roll, const NcclActivity& activity,
                 const std::string& reason, bool blames_peer) {
  const auto& [rank, what] = activity;
  const std::string missing = roll.missing([&] { return first_error.poll(); });
  const std::string where =
      missing.empty() ? what + " on " + rank : missing + ", while " + rank + " is in " + what;
  const std::string text = "[nccl] " + where + ": " + reason;
  if (blames_peer || !missing.empty()) {
    first_error.set(PeerError(text));
  } else {
    first_error.set(CudaError(text));
  }
}

void look_for_async_error(NcclCommunicator& communicator, FirstError& first_error, PeerRoll& roll,
                          const std::function<NcclActivity()>& find_activity) {
  const ncclResult_t state = communicator.async_state();
  if (state == ncclSuccess || state == ncclInProgress) return;
  break_group(first_error, roll, find_activity(), error_text(communicator.api(), state),
              state == ncclRemoteError);
}

}  // namespace ddp
