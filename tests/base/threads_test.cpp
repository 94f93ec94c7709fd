// SPDX-License-Identifier: MIT
//
// What waits, and by which clock.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "ddp/base/threads/awake_clock.h"
#include "ddp/base/threads/awake_timer.h"
#include "ddp/base/threads/periodic_thread.h"
#include "support/becomes_true.h"

using namespace ddp;
using namespace std::chrono_literals;

TEST_CASE("a period that is longer than any timeout never ends", "[base]") {
  std::atomic<int> ticks = 0;
  const PeriodicThread thread("test", Timeout::max(), [&ticks] { return ++ticks > 0; });
  REQUIRE(test::becomes_true([&ticks] { return ticks > 0; }));
  std::this_thread::sleep_for(20ms);  // or else there is no time for a second tick
  CHECK(ticks == 1);
}

TEST_CASE("of a suspension a timer counts little", "[base]") {
  AwakeTimer timer(2s);
  const Clock::time_point begin = Clock::now();
  CHECK(timer.look(begin + 1s) >= 1s);
  CHECK(timer.look(begin + 1h) <= 4s);
  CHECK(timer.look(begin + 1h + 1s) >= 4s - 1ms);
  CHECK(timer.passed() <= 5s);
}

TEST_CASE("time in which a process was suspended is no wait", "[base]") {
  AwakeClock clock;
  const Deadline deadline = clock.after(60s);
  const Clock::time_point begin = Clock::now();
  CHECK(clock.remaining(deadline, begin + 1s) <= 59s);
  CHECK(clock.remaining(deadline, begin + 1s + 1h) > 30s);
  CHECK(clock.remaining(deadline, begin + 1h + 2s) <= 58s);
  const Deadline later = clock.after(5s);
  CHECK(clock.remaining(later) <= 5s);
  const Deadline now = clock.after(0s);
  CHECK(clock.remaining(now) == 0s);
}
