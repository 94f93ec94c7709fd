// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "ddp/base/time.h"
#include "launcher/verdict/failure.h"

namespace ddp::launcher {

// The workers of one generation that have ended, and which failure was the first. After the first
// failure there is a short patience before the other workers are signalled: the rank that fails
// first may only have lost its peer, and the peer may be about to report the cause.
class Casualties {
 public:
  // Call it in the order of reaping. Fills in the ending's `when`.
  void record(Ending ending);

  [[nodiscard]] std::size_t count() const { return endings_.size(); }
  [[nodiscard]] bool any_failed() const;
  // True if some rank failed before any worker was signalled and does not blame a peer.
  [[nodiscard]] bool knows_cause() const;
  // True if one of those would have said so.
  [[nodiscard]] bool is_cause_certain() const;

  // The first failure has been seen. `dying` are the workers that are dead but not yet reaped; they
  // died by themselves. Starts the patience and returns it; it is longer while the cause is
  // unknown.
  Timeout see_failure(std::vector<pid_t> dying);
  [[nodiscard]] bool has_seen_failure() const { return patience_end_.has_value(); }
  [[nodiscard]] bool is_patience_over() const { return patience_end_ && patience_end_->passed(); }

  // The failure, as far as the endings tell it. At least one ending must be a failure.
  [[nodiscard]] WorkerFailure describe(int world_size, Clock::time_point start) const;
  // Ranks that had ended with 0 before any worker was signalled, in order.
  [[nodiscard]] std::vector<int> finished() const;
  // Ranks that were killed because they did not end when asked to, in order.
  [[nodiscard]] std::vector<int> killed_on_request() const;

 private:
  [[nodiscard]] Ending::When when_ended(pid_t pid) const;

  std::vector<Ending> endings_;
  std::vector<pid_t> dying_;                    // when the first failure was seen
  std::optional<Clock::time_point> failed_at_;  // when the first worker failed
  std::optional<Deadline> patience_end_;
};

}  // namespace ddp::launcher
