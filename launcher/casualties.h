// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "ddp/base/time.h"
#include "launcher/failure.h"

namespace ddp::launcher {

// The workers of one generation that have ended, and whose failure was the first. Between that and
// the moment in which the others are signalled lies some patience: who fails first may be a rank
// whose peer has left it, and the peer is still about to say why.
class Casualties {
 public:
  // Call it in the order of reaping. Fills in the ending's `when`.
  void record(Ending ending);

  [[nodiscard]] std::size_t count() const { return endings_.size(); }
  [[nodiscard]] bool any_failed() const;
  // Somebody failed, before anybody was signalled, who does not say that a peer did.
  [[nodiscard]] bool knows_cause() const;

  // The first failure has been seen. `dying` are those that do not live any more, but are still to
  // be reaped: they die on their own account. Returns the patience that begins, which is longer
  // while the cause is not known.
  Timeout see_failure(std::vector<pid_t> dying);
  [[nodiscard]] bool has_seen_failure() const { return patience_end_.has_value(); }
  [[nodiscard]] bool is_patience_over() const { return patience_end_ && patience_end_->passed(); }

  // As far as the endings tell. There is a failure among them.
  [[nodiscard]] WorkerFailure describe(int world_size, Clock::time_point start) const;
  // Ranks that had ended with 0 before anybody was signalled, in their order.
  [[nodiscard]] std::vector<int> finished() const;
  // Ranks that were asked to end and killed since they did not, in their order.
  [[nodiscard]] std::vector<int> killed_on_request() const;

 private:
  [[nodiscard]] Ending::When when_ended(pid_t pid) const;

  std::vector<Ending> endings_;
  std::vector<pid_t> dying_;                    // when the first failure was seen
  int finished_before_ = 0;                     // workers that had exited with 0 by then
  std::optional<Clock::time_point> failed_at_;  // the first of those that failed
  std::optional<Deadline> patience_end_;
};

}  // namespace ddp::launcher
