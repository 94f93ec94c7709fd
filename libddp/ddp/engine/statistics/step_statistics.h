// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddp/engine/statistics/step_costs.h"
#include "ddp/engine/statistics/step_summary.h"
#include "ddp/engine/statistics/straggler_finder.h"
#include "ddp/engine/statistics/usual_time.h"

namespace ddp {

// What one rank measures of its own step.
struct OwnStep {
  double seconds = 0;            // from the end of the last wait() to the end of this one
  double reduction_seconds = 0;  // of all buckets together; 0 if they were not timed
};

// Adds up what steps cost. A wait() ends on all ranks at about the same moment, when the last
// bucket is reduced. So a step of any rank consists of
//
//   its own work (compute, data wait) | the wait until the slowest rank has done its work |
//   reductions that are exposed even for the slowest rank
//
// Besides the length of the step, only each rank's work must be known; ranks learn it from each
// other a step or more late. A reduction's time begins when this rank joins it; the part spent
// waiting for a late rank is subtracted.
//
// Three kinds of steps are not counted: step 0, which has no wait() before it and warms up; pauses,
// in which even the fastest rank computes far longer than usual, for example because all ranks
// evaluated in between, or in which all of them were suspended within a reduction; and stalls, in
// which only the slowest rank does so, because its process stood still. Steps in which a rank has
// no samples are counted, but they neither make a straggler nor change what counts as usual.
//
// end_step() and add_ranks() do not allocate. Not thread-safe.
class StepStatistics {
 public:
  static constexpr std::uint64_t kMaxDelay = 32;  // steps
  // `bytes_per_step` is the sum of the buckets. For `max_delay` see add_ranks().
  StepStatistics(int rank, int world_size, std::size_t bytes_per_step,
                 std::uint64_t max_delay = kMaxDelay);

  // Step 0, 1, ... ended on this rank.
  void end_step(std::uint64_t step, const OwnStep& own);

  // The ranks' times in a step that has ended on this rank. Steps may be left out; a step that
  // ended max_delay or more steps ago is ignored.
  void add_ranks(std::uint64_t step, std::span<const RankTimes> ranks);

  [[nodiscard]] StepCosts costs() const;

 private:
  // Sums over all counted steps.
  struct Sums {
    double work = 0;  // mean over ranks
    double data = 0;  // likewise, within work
    double straggler = 0;
    double beside_idle = 0;  // the part of straggler in steps in which some rank had no samples
    double exposed = 0;
    double pauses = 0;
  };
  // Sums over the steps whose reductions were timed.
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
  [[nodiscard]] bool is_suspension(const OwnStep& own, double slowest);
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
  UsualTime usual_step_;
  std::uint64_t steps_ = 0;
  std::uint64_t idle_steps_ = 0;
  std::uint64_t pauses_ = 0;
  Stalls stalls_;
  Sums sums_;
  Reductions reductions_;
  StragglerFinder stragglers_;
};

}  // namespace ddp
