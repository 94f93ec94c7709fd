// SPDX-License-Identifier: MIT
#include "launcher/run/restart_policy.h"

#include <fmt/core.h>

#include <algorithm>

namespace ddp::launcher {

RestartPolicy::Decision RestartPolicy::after_failure(int rank, std::optional<std::int64_t> step) {
  failures_.emplace_back(rank, step);
  if (max_restarts_ == 0) return {};
  if (restarts_ == max_restarts_) {
    return {{}, fmt::format("not started again: --max_restarts {} is used up", max_restarts_)};
  }
  if (is_always_the_same()) {
    return {{},
            fmt::format("not started again: rank {} failed at step {} {} times in a row (a trainer "
                        "that resumes counts on if it calls continue_after)",
                        rank, *step, kSameFailures)};
  }
  const Timeout delay = kFirstDelay * (1 << std::min(restarts_, 5));
  ++restarts_;
  return {std::min(delay, kLongestDelay)};
}

// A rank whose step is unknown may have come further each time, so it does not count.
bool RestartPolicy::is_always_the_same() const {
  if (!failures_.back().second || failures_.size() < kSameFailures) return false;
  return std::all_of(failures_.end() - kSameFailures, failures_.end(),
                     [this](const auto& failure) { return failure == failures_.back(); });
}

}  // namespace ddp::launcher
