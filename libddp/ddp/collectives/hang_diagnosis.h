// SPDX-License-Identifier: MIT
//
// Who keeps an operation from ending, in one sentence: a pure function of what the ranks say of
// themselves.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ddp/base/time.h"
#include "ddp/collectives/flight_recorder.h"
#include "ddp/collectives/rank_progress.h"

namespace ddp {

// The operation that a rank waits for.
struct Hang {
  std::string group;
  std::string operation;  // describe_operation()
  CollectiveSignature signature;
  Timeout age{};
};

// What a rank knows of another one.
struct Witness {
  int rank = 0;                               // in the job
  std::optional<RankProgress> progress = {};  // none: it was never heard of
  ProcessState state = ProcessState::kUnknown;
  Timeout silence{};  // since its heartbeat moved, if it should have by now; else 0
};

// `members` are the group's ranks in order. Blames, in this order: a stopped process; who has
// submitted least, if that is too little, and of those rather one that does not wait itself; a
// process that ended or fell silent; nobody.
[[nodiscard]] std::string diagnose(const Hang& hang, std::span<const Witness> members);

}  // namespace ddp
