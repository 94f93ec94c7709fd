// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/step_stopwatch.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "ddp/collectives/wait_time.h"

using namespace ddp;

TEST_CASE("the stopwatch measures a step from the end of the previous one", "[statistics]") {
  using Seconds = std::chrono::duration<double>;
  StepStopwatch watch(kCpuDevice);
  CHECK_FALSE(watch.next_lap().has_value());
  Interval last_end;  // contains the end of the last step
  for (std::uint64_t step = 0; step < 20; ++step) {
    watch.backward_ended({});
    Interval end{Clock::now(), {}};
    watch.ended({}, 0.25, false);
    end.end = Clock::now();
    const auto lap = watch.next_lap();
    REQUIRE(lap.has_value() == (step > 0));
    if (lap) {
      CHECK(lap->step == step);
      CHECK(lap->times.data_seconds == 0.25);
      CHECK(lap->times.work_seconds <= Seconds(end.begin - last_end.begin).count());
      CHECK(lap->seconds >= Seconds(end.begin - last_end.end).count());
      CHECK(lap->seconds <= Seconds(end.end - last_end.begin).count());
    }
    last_end = end;
  }
}

// Each thread counts its own waits.
TEST_CASE("a step's work is right though another thread makes the next step", "[statistics]") {
  StepStopwatch watch(kCpuDevice);
  const auto step = [&watch](Timeout wait) {
    {
      const WaitTimer timer;
      std::this_thread::sleep_for(wait);
    }
    watch.backward_ended({});
    watch.ended({}, 0, false);
  };
  step(Timeout(20));
  std::thread(step, Timeout(0)).join();
  step(Timeout(0));
  int laps = 0;
  while (const auto lap = watch.next_lap()) {
    CHECK(lap->times.work_seconds >= 0);
    CHECK(lap->times.work_seconds <= lap->seconds);
    ++laps;
  }
  CHECK(laps == 2);
}

TEST_CASE("the stopwatch keeps the last laps until they are asked for", "[statistics]") {
  StepStopwatch watch(kCpuDevice);
  const auto laps_after = [&watch](std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i) watch.ended({}, 0, false);
    std::vector<std::uint64_t> laps;
    while (const auto lap = watch.next_lap()) laps.push_back(lap->step);
    return laps;
  };
  CHECK(laps_after(1).empty());
  CHECK(laps_after(3) == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(laps_after(StepStopwatch::kKept).size() == StepStopwatch::kKept);
  const std::vector<std::uint64_t> late = laps_after(StepStopwatch::kKept + 2);
  REQUIRE(late.size() == StepStopwatch::kKept);
  CHECK(late.front() == 18);
  CHECK(late.back() == 29);
}
