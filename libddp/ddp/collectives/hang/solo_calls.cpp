// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/solo_calls.h"

#include <algorithm>
#include <utility>

namespace ddp {

void SoloCalls::begin(const char* where, std::vector<int> waiting) {
  const std::lock_guard lock(mutex_);
  calls_.push_back({std::this_thread::get_id(), where, std::move(waiting)});
  ++count_;
}

void SoloCalls::end() {
  const std::lock_guard lock(mutex_);
  const auto last = std::find_if(calls_.rbegin(), calls_.rend(), [](const Call& call) {
    return call.thread == std::this_thread::get_id();
  });
  calls_.erase(std::next(last).base());
  --count_;
}

const char* SoloCalls::keeps_away(std::span<const int> job_ranks) const {
  if (count_ == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  for (const Call& call : calls_) {
    if (call.thread != std::this_thread::get_id()) continue;
    if (std::ranges::find_first_of(job_ranks, call.waiting) != job_ranks.end()) return call.where;
  }
  return nullptr;
}

}  // namespace ddp
