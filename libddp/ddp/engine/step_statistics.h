// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddp/engine/step_costs.h"
#include "ddp/engine/step_summary.h"
#include "ddp/engine/straggler_finder.h"
#include "ddp/engine/usual_time.h"

namespace ddp {

// What a rank alone knows of its step.
struct OwnStep {
  double seconds = 0;            // from the end of the last wait() to the end of this one
  double reduction_seconds = 0;  // of all buckets together; 0 if they were not timed
};

// Adds up what steps cost. A wait() ends on all ranks at about the same moment, when the last
// bucket is reduced, so a step of any rank consists of
//
//   its own work (compute, data wait) | the wait until the slowest rank has done its own |
//   reductions that are exposed even for the slowest rank
//
// and each rank's work, which ranks tell each other a step or more late, is all that must be known
// beside the length of the step. A reduction's time begins when this rank joins it; what it lasts
// because another one is late is subtracted.
//
// Left out are step 0, which has no wait() before it and warms up; pauses: steps in which even the
// fastest rank computes far longer than usual, because all of them evaluated in between, say; and
// stalls: steps in which the slowest one does so alone, because its process stood still. Steps in
// which a rank has no samples are counted, but name nobody a straggler and tell nothing of what is
// usual.
//
// end_step() and add_ranks() touch no heap. Not thread-safe.
class StepStatistics {
 public:
  static constexpr std::uint64_t kMaxDelay = 32;  // steps
  // `bytes_per_step` is what is reduced: the sum of the buckets. `max_delay`: see add_ranks().
  StepStatistics(int rank, int world_size, std::size_t bytes_per_step,
                 std::uint64_t max_delay = kMaxDelay);

  // Step 0, 1, ... ended on this rank.
  void end_step(std::uint64_t step, const OwnStep& own);

  // What the ranks tell of a step that has ended here. Steps may be missing; one that ended
  // max_delay steps ago or more is forgotten.
  void add_ranks(std::uint64_t step, std::span<const RankTimes> ranks);

  [[nodiscard]] StepCosts costs() const;
  [[nodiscard]] std::vector<Straggler> stragglers() const { return stragglers_.found(); }
  [[nodiscard]] std::string report() const { return format_report(costs()); }
  [[nodiscard]] std::string advice() const { return advice_on(costs()); }

 private:
  // Of all counted steps together.
  struct Sums {
    double work = 0;  // mean over ranks
    double data = 0;  // likewise, within work
    double straggler = 0;
    double exposed = 0;
    double pauses = 0;
  };
  // Of those whose reductions were timed.
  struct Reductions {
    std::uint64_t steps = 0;
    double seconds = 0;
    double exposed = 0;
  };
  struct Pending {
    std::uint64_t step = 0;
    OwnStep own;
    bool is_open = false;
  };

  void check(std::span<const RankTimes> ranks) const;
  [[nodiscard]] bool is_pause(const OwnStep& own, std::span<const RankTimes> ranks);
  [[nodiscard]] bool is_stall(std::span<const RankTimes> ranks);
  void count(const OwnStep& own, std::span<const RankTimes> ranks, double slowest);
  void count_reductions(const OwnStep& own, double straggler_wait, double exposed);

  int rank_;
  int world_size_;
  std::size_t bytes_;
  std::vector<Pending> pending_;
  UsualTime usual_fastest_;  // compute
  UsualTime usual_slowest_;
  std::uint64_t steps_ = 0;
  std::uint64_t pauses_ = 0;
  Stalls stalls_;
  Sums sums_;
  Reductions reductions_;
  StragglerFinder stragglers_;
};

}  // namespace ddp
