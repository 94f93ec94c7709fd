// SPDX-License-Identifier: MIT
#include "ddp/collectives/queue/caller_load.h"

#include <ctime>
#include <utility>

namespace ddp {

CallerLoad::Moment CallerLoad::now() {
  timespec busy{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &busy);
  return {.thread = std::this_thread::get_id(),
          .time = Clock::now(),
          .busy = std::chrono::seconds(busy.tv_sec) + std::chrono::nanoseconds(busy.tv_nsec)};
}

void CallerLoad::begin() { begin_ = now(); }

std::optional<double> CallerLoad::end() {
  const auto begin = std::exchange(begin_, std::nullopt);
  if (!begin) return std::nullopt;
  const Moment end = now();
  if (end.thread != begin->thread || end.time <= begin->time) return std::nullopt;
  using Seconds = std::chrono::duration<double>;
  return Seconds(end.busy - begin->busy) / Seconds(end.time - begin->time);
}

}  // namespace ddp
