// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/step_accounts.h"

#include <utility>

namespace ddp {
namespace {

// How many steps late the ranks' times may come on the CPU. It is small so that the pending steps
// stay in the caches.
constexpr std::uint64_t kCpuDelay = 2;

}  // namespace

StepAccounts::StepAccounts(const ProcessGroup& group, Reducer& reducer)
    : alone_(group.world_size() == 1),
      recorder_(reducer.recorder()),
      stopwatch_(alone_ ? kCpuDevice : group.device()),  // a world of one is timed on the host
      statistics_(group.rank(), group.world_size(), reducer.layout().reduced_bytes(),
                  group.device().is_cuda() ? StepStatistics::kMaxDelay : kCpuDelay) {}

// The ranks' times of a step are in the control vector that is launched lag() + 1 steps later.
[[gnu::hot]] RankTimes StepAccounts::begin_step(std::uint64_t step, const ControlLedger& ledger) {
  if (alone_) {
    if (step % StepStopwatch::kKept == 0) count_alone();
    return {};
  }
  RankTimes own;
  if (const auto lap = stopwatch_.next_lap()) {
    own = lap->times;
    const double reductions =
        recorder_ != nullptr ? recorder_->reduction_seconds(stopwatch_.lag()) : 0;
    statistics_.end_step(lap->step, {.seconds = lap->seconds, .reduction_seconds = reductions});
  }
  const std::uint64_t delay = stopwatch_.lag() + 1;
  if (ledger.steps() > delay) {
    statistics_.add_ranks(ledger.steps() - 1 - delay, ledger.times());
  }
  return own;
}

[[gnu::hot]] void StepAccounts::backward_ended(Stream stream) {
  if (!alone_) stopwatch_.backward_ended(stream);
}

[[gnu::hot]] void StepAccounts::ended(Stream stream, bool is_idle) {
  stopwatch_.ended(stream, std::exchange(data_seconds_, 0), is_idle);
}

StepCosts StepAccounts::costs() {
  if (alone_) count_alone();
  return statistics_.costs();
}

// In a world of one, all times are known at once and can be counted in batches. Counting after
// every step would cost more cache misses than the rest of the step. The whole step counts as work.
void StepAccounts::count_alone() {
  while (auto lap = stopwatch_.next_lap()) {
    lap->times.work_seconds = lap->seconds;
    statistics_.end_step(lap->step, {.seconds = lap->seconds});
    statistics_.add_ranks(lap->step, {&lap->times, 1});
  }
}

}  // namespace ddp
