// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "ddp/collectives/process_group.h"

namespace ddp {

struct OnRank0Options {
  Timeout period = std::chrono::seconds(1);    // between two heartbeats of rank 0
  Timeout silence = std::chrono::seconds(20);  // without a heartbeat, rank 0 counts as frozen
};

// Runs fn on rank 0 while the others wait, for hours if necessary (validation, a download). They
// wait for rank 0's heartbeats, not until a deadline: they do not time out while its process runs.
// If rank 0 ends or freezes, they throw PeerError; if the group breaks, its error. If it is broken
// before, rank 0 throws that, too, and does not run fn. If the store does not answer and rank 0 is
// not seen to be stopped, as when a launcher is, or when rank 0 hosts the store on another host,
// they wait for the store's timeout.
//
// An exception from fn is rethrown on rank 0 and becomes a PeerError with its text, of up to 64
// KiB, on the others. Collective. If fn submits an operation to the group, directly or through an
// engine, that throws std::logic_error, because no other rank would join it; so does one to a
// duplicate or part of the group, or to the group that this one is a part of, if a waiting rank
// belongs to it. After fn, rank 0 waits for the others to read how it ended, but at most two
// seconds: it may host the store. If rank 0 does not call on_rank0 within the group's timeout, the
// others throw TimeoutError; if it has gone on to another collective of the group, which then waits
// for them, MismatchError within a few seconds, and the group is aborted.
//
// A rank that skips a call would take its result in the next one. If the ranks have submitted a
// collective to the group in between, they notice: that rank throws MismatchError, and the group is
// aborted.
void on_rank0(ProcessGroup& group, const std::function<void()>& fn,
              const OnRank0Options& options = {});

}  // namespace ddp
