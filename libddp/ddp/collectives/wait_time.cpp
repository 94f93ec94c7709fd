// SPDX-License-Identifier: MIT
#include "ddp/collectives/wait_time.h"

namespace ddp {
namespace {

// One for each thread, like the CPU time that the kernel counts: a rank may be a thread.
struct Waits {
  int timers = 0;
  Clock::time_point since = {};
  Clock::duration total = {};
};

constinit thread_local Waits waits;

}  // namespace

WaitTimer::WaitTimer() noexcept {
  if (waits.timers++ == 0) waits.since = Clock::now();
}

WaitTimer::~WaitTimer() {
  if (--waits.timers == 0) waits.total += Clock::now() - waits.since;
}

[[gnu::hot]] TimeWaited time_waited() noexcept { return {std::this_thread::get_id(), waits.total}; }

[[gnu::hot]] Clock::duration waited_between(const TimeWaited& begin,
                                            const TimeWaited& end) noexcept {
  return begin.thread == end.thread ? end.total - begin.total : Clock::duration{};
}

}  // namespace ddp
