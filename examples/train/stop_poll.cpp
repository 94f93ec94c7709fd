// SPDX-License-Identifier: MIT
#include "stop_poll.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "ddp/collectives/host_collectives.h"

namespace train {
namespace {

constexpr double kSeconds = 0.5;     // between two collectives
constexpr std::int64_t kGrowth = 8;  // of the interval, since the first batches may be fast

}  // namespace

StopPoll::StopPoll(ddp::ProcessGroup& group, const ddp::SignalGuard& signals)
    : group_(group), signals_(signals), asked_(ddp::Clock::now()) {}

bool StopPoll::stop_requested() {
  if (++batches_ < interval_) return false;
  const std::chrono::duration<double> passed = ddp::Clock::now() - asked_;
  std::array<double, 2> most = {signals_.stop_requested() ? 1.0 : 0.0,
                                passed.count() / static_cast<double>(batches_)};
  ddp::all_reduce_on_host(group_, most, ddp::ReduceOp::kMax);
  const auto [stop, seconds_per_batch] = most;
  const auto longest = static_cast<double>(kGrowth * interval_);
  interval_ = std::max<std::int64_t>(
      static_cast<std::int64_t>(std::min(kSeconds / std::max(seconds_per_batch, 1e-9), longest)),
      1);
  batches_ = 0;
  asked_ = ddp::Clock::now();
  return stop > 0;
}

}  // namespace train
