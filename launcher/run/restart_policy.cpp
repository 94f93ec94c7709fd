// SPDX-License-Identifier: MIT
#include "launcher/run/restart_policy.h"

#include <fmt/core.h>

#include <algorithm>

namespace ddp::launcher {

RestartPolicy::Decision RestartPolicy::after_failure(int rank, std::optional<std::int64_t> step) {
  steps_.push_back(step);
  if (max_restarts_ == 0) return {};
  if (restarts_ == max_restarts_) {
    return {{}, fmt::format("not started again: --max_restarts {} is used up", max_restarts_)};
  }
  if (is_always_the_same()) {
    return {{},
            fmt::format("not started again: step {} has failed {} times in a row, last on rank {} "
                        "(a trainer that resumes counts on if it calls continue_after)",
                        *step, kSameFailures, rank)};
  }
  const Timeout delay = kFirstDelay * (1 << std::min(restarts_, 5));
  ++restarts_;
  return {std::min(delay, kLongestDelay)};
}

// A rank whose step is unknown may have come further each time, so it does not count. If all ranks
// fail alike, any of them may be the first.
bool RestartPolicy::is_always_the_same() const {
  if (!steps_.back() || steps_.size() < kSameFailures) return false;
  return std::all_of(steps_.end() - kSameFailures, steps_.end(),
                     [this](const auto& step) { return step == steps_.back(); });
}

}  // namespace ddp::launcher
