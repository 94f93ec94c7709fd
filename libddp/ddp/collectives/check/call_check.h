// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ddp/base/threads/periodic_thread.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/store/store.h"

namespace ddp {

// How long calls are compared: until a group has made this many steps or, while it has begun none,
// this many calls. A training makes the same calls in each step, so a difference shows in the first
// ones.
struct CallCheckLimits {
  std::uint64_t steps = 10;
  std::uint64_t collectives = 2000;

  // Unlimited if DDP_CHECK=1. Throws EnvironmentError if the variable is neither true nor false.
  [[nodiscard]] static CallCheckLimits from_environment();
};

// Detects ranks that call different collectives, for a backend that would hang or give wrong
// values. Call n of each rank is compared, through the store, with that of the rank that made it
// first. The caller's thread does no extra work: the check's own thread reads the group's recorder,
// and ends when the limits are reached. If the recorder has already overwritten a call, this rank
// skips it and relies on the others.
class CallCheck {
 public:
  static constexpr Timeout kPeriod{100};

  // `on_mismatch` gets GroupNames::mismatch(), at most once, on the check's thread. This class does
  // not tell the other rank.
  CallCheck(const GroupConfig& config, std::shared_ptr<const FlightRecorder> recorder,
            const CallCheckLimits& limits, std::function<void(const std::string&)> on_mismatch);

 private:
  bool look();
  bool compare(const CollectiveSignature& call);

  std::shared_ptr<Store> store_;
  int rank_;
  GroupNames names_;
  std::shared_ptr<const FlightRecorder> recorder_;
  CallCheckLimits limits_;
  std::function<void(const std::string&)> on_mismatch_;
  std::uint64_t compared_ = 0;  // collectives
  PeriodicThread thread_;       // last: it uses the others
};

}  // namespace ddp
