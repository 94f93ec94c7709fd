// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/step_statistics.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace ddp {
namespace {

// The time of a reduction is measured and reduced by the estimated wait for other ranks. With fewer
// reductions than this, the error of that estimate dominates the result.
constexpr std::uint64_t kFewestReductions = 10;

// A reduction that takes so much longer than usual is not merely slow.
constexpr double kSuspensionSeconds = 1;

double data_of(const RankTimes& times) { return std::min(times.data_seconds, times.work_seconds); }

double compute_of(const RankTimes& times) { return times.work_seconds - data_of(times); }

double slowest_work(std::span<const RankTimes> ranks) {
  return std::ranges::max(ranks, {}, &RankTimes::work_seconds).work_seconds;
}

}  // namespace

StepStatistics::StepStatistics(int rank, int world_size, std::size_t bytes_per_step,
                               std::uint64_t max_delay)
    : rank_(rank),
      world_size_(world_size),
      bytes_(bytes_per_step),
      pending_(max_delay),
      stragglers_(world_size) {
  if (rank >= 0 && rank < world_size) return;
  throw std::invalid_argument("[step_statistics] rank " + std::to_string(rank) + " of " +
                              std::to_string(world_size));
}

[[gnu::hot]] void StepStatistics::end_step(std::uint64_t step, const OwnStep& own) {
  pending_[step % pending_.size()] = {.step = step, .own = own, .is_open = true};
}

[[gnu::hot]] void StepStatistics::add_ranks(std::uint64_t step, std::span<const RankTimes> ranks) {
  check(ranks);
  Pending& pending = pending_[step % pending_.size()];
  if (!pending.is_open || pending.step != step) return;
  pending.is_open = false;
  if (step == 0) return;
  const bool all_work = std::ranges::none_of(ranks, &RankTimes::is_idle);
  if (is_pause(pending.own, ranks)) return;
  if (all_work && world_size_ > 1) {
    stragglers_.add(ranks);
    if (is_stall(ranks)) return;
  }
  const double waited_before = sums_.straggler;
  count(pending.own, ranks, slowest_work(ranks));
  if (all_work) return;
  ++idle_steps_;
  sums_.beside_idle += sums_.straggler - waited_before;
}

// The ranks, or one of them, stood still within a reduction, so that none worked longer.
bool StepStatistics::is_suspension(const OwnStep& own, double slowest) {
  return world_size_ > 1 && usual_step_.is_far_longer(own.seconds) &&
         own.seconds - slowest >= kSuspensionSeconds;
}

// All ranks that have samples stand still together, as in an evaluation.
[[gnu::hot]] bool StepStatistics::is_pause(const OwnStep& own, std::span<const RankTimes> ranks) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double fastest = kNone;
  for (const RankTimes& rank : ranks) {
    if (!rank.is_idle) fastest = std::min(fastest, compute_of(rank));
  }
  const bool is_suspended = is_suspension(own, slowest_work(ranks));
  const bool is_long = fastest != kNone && usual_fastest_.is_far_longer(fastest);
  if (!is_long && !is_suspended) return false;
  ++pauses_;
  sums_.pauses += std::max(own.seconds, slowest_work(ranks));
  return true;
}

bool StepStatistics::is_stall(std::span<const RankTimes> ranks) {
  const auto slowest = std::ranges::max_element(ranks, {}, compute_of);
  if (!usual_slowest_.is_far_longer(compute_of(*slowest))) return false;
  ++stalls_.steps;
  stalls_.seconds += slowest->work_seconds;
  if (slowest->work_seconds > stalls_.longest_seconds) {
    stalls_.longest_seconds = slowest->work_seconds;
    stalls_.rank = static_cast<int>(slowest - ranks.begin());
  }
  return true;
}

void StepStatistics::check(std::span<const RankTimes> ranks) const {
  if (ranks.size() == static_cast<std::size_t>(world_size_)) return;
  throw std::invalid_argument("[step_statistics] times of " + std::to_string(ranks.size()) +
                              " ranks, not of " + std::to_string(world_size_));
}

[[gnu::hot]] void StepStatistics::count(const OwnStep& own, std::span<const RankTimes> ranks,
                                        double slowest) {
  double work = 0;
  double data = 0;
  for (const RankTimes& rank : ranks) {
    work += rank.work_seconds / world_size_;
    data += data_of(rank) / world_size_;
  }
  // Ranks leave a wait() at slightly different moments, so a measured step may be shorter than the
  // slowest rank's work.
  const double exposed = std::max(0.0, own.seconds - slowest);
  ++steps_;
  sums_.work += work;
  sums_.data += data;
  sums_.straggler += slowest - work;
  sums_.exposed += exposed;
  const double own_work = ranks[static_cast<std::size_t>(rank_)].work_seconds;
  count_reductions(own, slowest - own_work, exposed);
}

void StepStatistics::count_reductions(const OwnStep& own, double straggler_wait, double exposed) {
  if (own.reduction_seconds == 0) return;
  ++reductions_.steps;
  reductions_.seconds += std::max(own.reduction_seconds - straggler_wait, exposed);
  reductions_.exposed += exposed;
}

StepCosts StepStatistics::costs() const {
  StepCosts costs{.world_size = world_size_,
                  .steps = steps_,
                  .bytes = bytes_,
                  .pauses = pauses_,
                  .pause_seconds = sums_.pauses,
                  .stalls = stalls_,
                  .stragglers = stragglers_.found(),
                  .most_often_last = stragglers_.most_often_last(),
                  .idle_steps = idle_steps_};
  if (steps_ == 0) return costs;
  const auto steps = static_cast<double>(steps_);
  costs.compute_seconds = (sums_.work - sums_.data) / steps;
  costs.exposed_seconds = sums_.exposed / steps;
  costs.data_seconds = sums_.data / steps;
  costs.straggler_seconds = sums_.straggler / steps;
  costs.beside_idle_seconds = sums_.beside_idle / steps;
  double useful = world_size_ * sums_.work;
  for (const Straggler& straggler : costs.stragglers) {
    useful -= straggler.late_seconds * static_cast<double>(straggler.steps);
  }
  if (costs.step_seconds() > 0) costs.speed_up = useful / steps / costs.step_seconds();
  if (reductions_.steps >= kFewestReductions && reductions_.seconds > 0) {
    const double algorithm_bandwidth =
        static_cast<double>(bytes_) * static_cast<double>(reductions_.steps) / reductions_.seconds;
    costs.bus_bandwidth = algorithm_bandwidth * 2 * (world_size_ - 1) / world_size_;
    costs.overlap = 1 - reductions_.exposed / reductions_.seconds;
  }
  return costs;
}

}  // namespace ddp
