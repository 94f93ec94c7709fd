// SPDX-License-Identifier: MIT
#include "launcher/run/start_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ddp/base/rank_list.h"

namespace ddp::launcher {

void StartWatch::note_absent(int rank) {
  absent_.push_back(rank);
  std::ranges::sort(absent_);
  if (!is_said_ && !next_) next_ = Deadline::after(kPeriod);
}

std::string StartWatch::look(const std::vector<int>& waiting) {
  next_ = Deadline::after(kPeriod);
  const bool is_confirmed = std::exchange(was_waiting_, !waiting.empty()) && !waiting.empty();
  if (!is_confirmed) return "";
  is_said_ = true;
  next_.reset();
  return fmt::format(
      "{} ended with code 0 without init_process_group, where {} wait{} for the "
      "time that the program or DDP_START_TIMEOUT sets",
      rank_list(absent_), rank_list(waiting), waiting.size() == 1 ? "s" : "");
}

}  // namespace ddp::launcher
