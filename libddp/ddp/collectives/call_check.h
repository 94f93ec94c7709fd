// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ddp/base/periodic_thread.h"
#include "ddp/collectives/flight_recorder.h"
#include "ddp/store/store.h"

namespace ddp {

// How long calls are compared: until a group has done so many steps or calls. Whoever trains calls
// the same in each step, so a difference shows in the first ones.
struct CallCheckLimits {
  std::uint64_t steps = 10;
  std::uint64_t collectives = 2000;

  // Without end if DDP_CHECK=1.
  [[nodiscard]] static CallCheckLimits from_environment();
};

// Tells ranks that call different collectives so, for a backend that would hang or give wrong
// values: call n of each rank is compared, through the store, with that of the rank that made it
// first. Nothing of this happens on the caller's path: a thread reads the group's recorder, and
// ends with the check. A call that it misses, because the recorder has gone on, is left to the
// other ranks.
class CallCheck {
 public:
  static constexpr Timeout kPeriod{100};

  // `on_mismatch` gets mismatch_message(), at most once, on the check's thread. The other rank does
  // not learn of it here.
  CallCheck(std::shared_ptr<Store> store, int rank, std::shared_ptr<const FlightRecorder> recorder,
            const CallCheckLimits& limits, std::function<void(const std::string&)> on_mismatch);

 private:
  bool look();
  bool compare(const CollectiveSignature& call);

  std::shared_ptr<Store> store_;
  int rank_;
  std::shared_ptr<const FlightRecorder> recorder_;
  CallCheckLimits limits_;
  std::function<void(const std::string&)> on_mismatch_;
  std::uint64_t compared_ = 0;  // collectives
  PeriodicThread thread_;       // last: it uses the others
};

}  // namespace ddp
