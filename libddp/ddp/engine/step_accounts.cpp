// SPDX-License-Identifier: MIT
#include "ddp/engine/step_accounts.h"

#include <utility>

namespace ddp {
namespace {

// How many steps late the ranks' times may come on the CPU; no more, to stay in the caches.
constexpr std::uint64_t kCpuDelay = 2;

}  // namespace

StepAccounts::StepAccounts(const ProcessGroup& group, std::size_t bytes_per_step)
    : alone_(group.world_size() == 1),
      stopwatch_(alone_ ? kCpuDevice : group.device()),  // alone nothing runs on the device
      statistics_(group.rank(), group.world_size(), bytes_per_step,
                  group.device().is_cuda() ? StepStatistics::kMaxDelay : kCpuDelay) {}

// What ranks tell each other of a step is in the control vector that is launched lag() + 1 steps
// after it.
RankTimes StepAccounts::begin_step(std::uint64_t step, const ControlLedger& ledger,
                                   const StepRecorder* recorder) {
  if (alone_) {
    if (step % StepStopwatch::kKept == 0) count_alone();
    return {};
  }
  RankTimes own;
  if (const auto lap = stopwatch_.next_lap()) {
    own = lap->times;
    // The recorder knows of the last step only.
    const bool is_timed = recorder != nullptr && stopwatch_.lag() == 0;
    statistics_.end_step(lap->step,
                         {.seconds = lap->seconds,
                          .reduction_seconds = is_timed ? recorder->reduction_seconds() : 0});
  }
  const std::uint64_t delay = stopwatch_.lag() + 1;
  if (ledger.steps() > delay) {
    statistics_.add_ranks(ledger.steps() - 1 - delay, ledger.times());
  }
  return own;
}

void StepAccounts::backward_ended(Stream stream) {
  if (!alone_) stopwatch_.backward_ended(stream);
}

void StepAccounts::ended(Stream stream, bool is_idle) {
  stopwatch_.ended(stream, std::exchange(data_seconds_, 0), is_idle);
}

const StepStatistics& StepAccounts::statistics() {
  if (alone_) count_alone();
  return statistics_;
}

// Alone all is known at once, and may be counted now and then: each time costs more cache misses
// than all else in a step. A step is work from one end to the other.
void StepAccounts::count_alone() {
  while (auto lap = stopwatch_.next_lap()) {
    lap->times.work_seconds = lap->seconds;
    statistics_.end_step(lap->step, {.seconds = lap->seconds});
    statistics_.add_ranks(lap->step, {&lap->times, 1});
  }
}

}  // namespace ddp
