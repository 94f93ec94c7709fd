// SPDX-License-Identifier: MIT
//
// What waits, and by which clock.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "ddp/base/threads/awake_clock.h"
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

TEST_CASE("time in which a process was suspended is no wait", "[base]") {
  AwakeClock clock;
  const Deadline before = clock.after(5s);
  clock.note_turn(Clock::now() - 100ms);
  CHECK(clock.remaining(before) <= 5s);
  clock.note_turn(Clock::now() - 1h);
  CHECK(clock.remaining(before) > 1h);
  CHECK(clock.remaining(clock.after(5s)) <= 5s);
  CHECK(clock.remaining(clock.after(0s)) == 0s);
}
