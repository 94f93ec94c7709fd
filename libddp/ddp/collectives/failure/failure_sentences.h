// SPDX-License-Identifier: MIT
//
// The texts of the errors that break a group, the same in all backends.
#pragma once

#include <string>

#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/failure/lost_rank.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/hang/flight_recorder.h"

namespace ddp {

// What this rank is doing when its group breaks.
struct Activity {
  std::string rank;  // "rank 0"
  CollectiveSignature call = {};
  std::string operation;  // "#12 all_reduce(float32[5], sum) (bucket 4: layer3.*) of group a/b"
  bool constructs_engine = false;
};

// That of the oldest operation that is not done, which makes this call.
[[nodiscard]] Activity activity_in(const CollectiveSignature& call, const FlightRecorder& recorder,
                                   const GroupNames& names);

// "[tcp] rank 1 (node7, pid 123, cpu) died, while rank 0 is in OPERATION", with advice if it left.
[[nodiscard]] std::string loss_sentence(const std::string& origin, const LostRank& lost,
                                        const Activity& activity);
// The same for a rank that waits outside the backend.
[[nodiscard]] std::string loss_while_waiting_sentence(const std::string& origin,
                                                      const LostRank& lost,
                                                      const GroupNames& names);

// "ORIGIN: timed out after 300 ms: DIAGNOSIS", or "... in OPERATION" if the hang watch has no
// diagnosis, which knows more; then what sets the timeout.
[[nodiscard]] std::string timeout_sentence(const std::string& origin, Timeout timeout,
                                           const FlightRecorder& recorder,
                                           const std::string& operation);

}  // namespace ddp
