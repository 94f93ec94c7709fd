// SPDX-License-Identifier: MIT
//
// Finds the rank that keeps an operation from ending, and says so in one sentence: a pure function
// of what the ranks publish about themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/hang/rank_progress.h"

namespace ddp {

// The operation that a rank waits for; of a batch, the first collective or, without one, the first.
struct Hang {
  // A send or recv concerns its peer only, a member.
  struct Transfer {
    int peer = 0;
    std::string operation;
  };

  std::string group;
  int self = 0;           // this rank's number in the group
  std::string operation;  // describe_operation()
  CollectiveSignature signature;
  std::vector<Transfer> transfers = {};  // of a batch without collectives: all
  Timeout age{};
  std::uint64_t step = 0;  // in which it was submitted; 0: none has begun
};

// What one rank knows about another.
struct Witness {
  int rank = 0;                               // rank in the job
  std::optional<RankProgress> progress = {};  // empty: has published nothing yet
  ProcessState state = ProcessState::kUnknown;
  Timeout silence{};      // since its heartbeat stopped, if it should have moved; else 0
  Timeout told_before{};  // the least age of `progress`, if the rank tells nothing more; else 0
};

// `members` are the group's ranks in order. Blames a process that is stopped; if none is, nor has
// ended or fallen silent, two ranks that wait for each other's data, between which the network does
// not deliver; else the rank that has submitted least, if that is too little (of several such
// ranks, one that does not wait itself); if there is none, a process that has ended or whose
// heartbeat has stopped. What a process has submitted does not count if its heartbeat has stopped
// although it is seen to run. Otherwise it blames no rank. Of several peers of sends and receives,
// it blames one whose state says why it is missing; if there is none, it cannot tell which of them.
[[nodiscard]] std::string diagnose(const Hang& hang, std::span<const Witness> members);

// The sentence when the store does not answer, so that nothing is known about the other ranks.
[[nodiscard]] std::string diagnose_silent_store(const Hang& hang);

}  // namespace ddp
