// SPDX-License-Identifier: MIT
//
// Tests the simulated group of the engine's benchmarks.
#include <catch2/catch.hpp>

#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/run_ranks.h"
#include "support/simulated_group.h"

using namespace ddp;
using namespace std::chrono_literals;
using bench::make_simulated_group;

TEST_CASE("a simulated all_reduce takes the link's time", "[bench]") {
  const bench::SimulatedLink link{.latency = 2ms, .bytes_per_second = 1e9};
  CHECK(link.time_of(3'000'000) == 5ms);
  const auto group = make_simulated_group(link, 2);
  std::vector<float> large(750'000, 1.0F);
  const Clock::time_point begin = Clock::now();
  const Work first = group->all_reduce(buffer_of(large));
  const Work second = group->all_reduce(buffer_of(large));
  const bool was_busy = Clock::now() < begin + 5ms;  // when it was given the second
  second.wait();
  CHECK(Clock::now() - begin >= 10ms);  // the operations ran one after the other
  CHECK(first.interval()->end - first.interval()->begin == 5ms);
  const auto pause = second.interval()->begin - first.interval()->end;
  CHECK(pause >= 0ms);
  if (was_busy) CHECK(pause == 0ms);  // however late the group's thread woke
  CHECK(large.front() == 1.0F);
}

TEST_CASE("small operands get the result that equal ranks would give", "[bench]") {
  const auto group = make_simulated_group({}, 3);
  std::vector<double> values = {1, 2};
  group->all_reduce(buffer_of(values)).wait();
  CHECK(values == std::vector<double>{3, 6});
  group->all_reduce(buffer_of(values), ReduceOp::kMax).wait();
  CHECK(values == std::vector<double>{3, 6});
  std::vector<double> gathered(6);
  group->all_gather(buffer_of(values), buffer_of(gathered)).wait();
  CHECK(gathered == std::vector<double>{3, 6, 3, 6, 3, 6});
  CHECK_THROWS_AS(group->send(buffer_of(values), 1), std::invalid_argument);
}

TEST_CASE("the engine runs on a simulated group", "[bench]") {
  std::vector<double> value(10, 1.0);
  DistributedDataParallel ddp(make_simulated_group({}, 4), {{"weight", {10}, buffer_of(value)}});
  for (int step = 0; step < 3; ++step) {
    (void)ddp.begin_step({.samples = 2});
    ddp.mark_ready(0);
    ddp.wait();
    CHECK(ddp.summary().samples == 8);
  }
}

TEST_CASE("an aborted simulated group throws the reason", "[bench]") {
  const auto group = make_simulated_group({}, 2);
  group->abort("enough");
  CHECK(test::error_of([&] { group->barrier().wait(); }).find("enough") != std::string::npos);
}
