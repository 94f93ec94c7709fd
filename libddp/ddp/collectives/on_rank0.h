// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "ddp/collectives/process_group.h"

namespace ddp {

struct OnRank0Options {
  Timeout period = std::chrono::seconds(1);    // of rank 0's heartbeat
  Timeout silence = std::chrono::seconds(20);  // of a rank 0 that is taken for frozen
};

// Runs fn on rank 0 while the others wait: for hours, if need be (validation, a download). They
// wait for rank 0's heartbeat, not for a time: while its process lives, nobody times out. If it
// ends, or does not run any more, they throw PeerError.
//
// What fn throws is rethrown on rank 0 and is a PeerError with its text on the others. Collective;
// what fn itself calls of the group, be it by an engine, is std::logic_error, since nobody would
// join it. Rank 0 waits for nobody; if it does not come in the group's timeout,
// the others throw TimeoutError.
void on_rank0(ProcessGroup& group, const std::function<void()>& fn,
              const OnRank0Options& options = {});

}  // namespace ddp
