// SPDX-License-Identifier: MIT
#include "ddp/engine/step_statistics.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ddp {
namespace {

double data_of(const RankTimes& times) { return std::min(times.data_seconds, times.work_seconds); }

double compute_of(const RankTimes& times) { return times.work_seconds - data_of(times); }

}  // namespace

StepStatistics::StepStatistics(int rank, int world_size, std::size_t bytes_per_step)
    : rank_(rank), world_size_(world_size), bytes_(bytes_per_step), stragglers_(world_size) {
  if (rank >= 0 && rank < world_size) return;
  throw std::invalid_argument("[step_statistics] rank " + std::to_string(rank) + " of " +
                              std::to_string(world_size));
}

void StepStatistics::end_step(std::uint64_t step, const OwnStep& own) {
  pending_[step % kMaxDelay] = {.step = step, .own = own, .is_open = true};
}

void StepStatistics::add_ranks(std::uint64_t step, std::span<const RankTimes> ranks) {
  check(ranks);
  Pending& pending = pending_[step % kMaxDelay];
  if (!pending.is_open || pending.step != step) return;
  pending.is_open = false;
  if (step == 0) return;
  const double slowest = std::ranges::max(ranks, {}, &RankTimes::work_seconds).work_seconds;
  const bool all_work = std::ranges::none_of(ranks, &RankTimes::is_idle);
  if (all_work && is_pause(compute_of(std::ranges::min(ranks, {}, compute_of)))) {
    ++pauses_;
    sums_.pauses += std::max(pending.own.seconds, slowest);
    return;
  }
  count(pending.own, ranks, slowest);
  if (all_work) stragglers_.add(ranks);
}

void StepStatistics::check(std::span<const RankTimes> ranks) const {
  if (ranks.size() == static_cast<std::size_t>(world_size_)) return;
  throw std::invalid_argument("[step_statistics] times of " + std::to_string(ranks.size()) +
                              " ranks, not of " + std::to_string(world_size_));
}

bool StepStatistics::is_pause(double compute_seconds) {
  const bool is_long = usual_compute_ > 0 && compute_seconds >= kPauseFactor * usual_compute_;
  recent_compute_[seen_++ % kUsual] = compute_seconds;
  if (seen_ >= kLeastUsual && seen_ % 2 == 1) find_usual();
  return is_long;
}

void StepStatistics::find_usual() {
  std::array<double, kUsual> sorted = recent_compute_;
  const auto known = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(seen_, kUsual));
  std::nth_element(sorted.begin(), sorted.begin() + known / 2, sorted.begin() + known);
  usual_compute_ = sorted[static_cast<std::size_t>(known / 2)];
}

void StepStatistics::count(const OwnStep& own, std::span<const RankTimes> ranks, double slowest) {
  double work = 0;
  double data = 0;
  for (const RankTimes& rank : ranks) {
    work += rank.work_seconds / world_size_;
    data += data_of(rank) / world_size_;
  }
  // Ranks leave a wait() at slightly different moments: a step cannot be shorter than its work.
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
                  .stragglers = stragglers_.found(),
                  .most_often_last = stragglers_.most_often_last()};
  if (steps_ == 0) return costs;
  const auto steps = static_cast<double>(steps_);
  costs.compute_seconds = (sums_.work - sums_.data) / steps;
  costs.exposed_seconds = sums_.exposed / steps;
  costs.data_seconds = sums_.data / steps;
  costs.straggler_seconds = sums_.straggler / steps;
  double useful = world_size_ * sums_.work;
  for (const Straggler& straggler : costs.stragglers) {
    useful -= straggler.late_seconds * static_cast<double>(straggler.steps);
  }
  if (costs.step_seconds() > 0) costs.speed_up = useful / steps / costs.step_seconds();
  if (reductions_.seconds > 0) {
    const double algorithm_bandwidth =
        static_cast<double>(bytes_) * static_cast<double>(reductions_.steps) / reductions_.seconds;
    costs.bus_bandwidth = algorithm_bandwidth * 2 * (world_size_ - 1) / world_size_;
    costs.overlap = 1 - reductions_.exposed / reductions_.seconds;
  }
  return costs;
}

}  // namespace ddp
