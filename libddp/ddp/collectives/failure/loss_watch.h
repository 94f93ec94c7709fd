// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/failure/first_error.h"
#include "ddp/collectives/failure/peer_roll.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/hang/flight_recorder.h"

namespace ddp {

// Breaks a group whose oldest operation waits for a rank that died or left, if nothing else tells
// so. A lost rank may have done its part, and an operation may be pending for long because the
// device still computes; so the group breaks at once only if the operation cannot end without the
// rank, and else some time after the loss was seen. A send or recv concerns its peer only.
//
// It has no thread: the owner calls look() every FirstError::kPeriod on a thread that may talk to
// the store. While operations end from look to look, that costs next to nothing.
class LossWatch {
 public:
  struct Options {
    std::string backend;
    std::function<std::vector<LostRank>()> find_lost;
    Timeout patience;  // how long an operation is pending before anybody is looked for
    // How long an operation may be pending after a loss was seen, of a rank that died, or of one
    // that may have done its part: its fate is unknown, or it left and the operation is a send or
    // recv. It is not known which messages of a batch are done.
    Timeout for_dead;
    Timeout for_unknown;
  };

  // Borrows the last three.
  LossWatch(const GroupConfig& config, Options options, const FlightRecorder& recorder,
            const PeerRoll& roll, FirstError& first_error);

  void look();

 private:
  void look_at(const CollectiveSignature& operation, Clock::time_point since,
               const std::vector<LostRank>& all_lost);
  [[nodiscard]] bool is_missing(const LostRank& lost, const CollectiveSignature& operation,
                                Clock::duration age) const;

  GroupNames names_;
  Options options_;
  const FlightRecorder& recorder_;
  const PeerRoll& roll_;
  FirstError& first_error_;
  std::uint64_t done_ = 0;                 // the last operation done, as of the last look
  std::map<int, Clock::time_point> seen_;  // when the loss of a rank was first seen
};

}  // namespace ddp
