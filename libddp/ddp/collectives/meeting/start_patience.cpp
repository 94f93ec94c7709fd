// SPDX-License-Identifier: MIT
#include "ddp/collectives/meeting/start_patience.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ddp {

StartPatience::StartPatience(Timeout timeout, std::string store, Timeout period, Report report)
    : timeout_(timeout),
      timer_(2 * period),  // slice() is no longer
      period_(period),
      next_line_(Deadline::after(period)),
      store_(std::move(store)),
      report_(std::move(report)) {}

Timeout StartPatience::slice(Timeout longest) {
  const Timeout left = std::max(Timeout(0), timeout_ - timer_.look());
  return std::min({longest, left, next_line_.remaining()});
}

bool StartPatience::is_due() {
  if (!next_line_.passed()) return false;
  next_line_ = Deadline::after(period_);
  return true;
}

std::string StartPatience::waited() const {
  const auto time = std::chrono::duration_cast<Timeout>(Clock::now() - begin_);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return seconds.count() == 0 ? fmt::format("{} ms", time.count())
                              : fmt::format("{} s", seconds.count());
}

}  // namespace ddp
