// SPDX-License-Identifier: MIT
//
// Tests with synthetic steps, whose costs are known.
#include "ddp/engine/statistics/step_statistics.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "support/allocation_counter.h"
#include "support/run_ranks.h"

using namespace ddp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using test::error_of;

namespace {

constexpr double kMs = 1e-3;

// What each rank does in a step: 20 ms of compute, plus data(); and the time of rank 0's
// reductions.
struct Job {
  int world_size = 2;
  double exposed = 2 * kMs;
  double reductions = 0;  // excluding waits; 0: not timed
  std::function<double(int rank, int step)> compute = [](int, int) { return 20 * kMs; };
  std::function<double(int rank, int step)> data = [](int, int) { return 0.0; };
};

std::vector<RankTimes> ranks_in(const Job& job, int step) {
  std::vector<RankTimes> ranks;
  for (int rank = 0; rank < job.world_size; ++rank) {
    const double data = job.data(rank, step);
    ranks.push_back({job.compute(rank, step) + data, data});
  }
  return ranks;
}

// Feeds the statistics with steps whose ranks' times come `delay` steps late.
void run(StepStatistics& statistics, const Job& job, int steps, int delay = 1) {
  for (int step = 0; step < steps; ++step) {
    const std::vector<RankTimes> ranks = ranks_in(job, step);
    const double slowest = std::ranges::max(ranks, {}, &RankTimes::work_seconds).work_seconds;
    const double wait = slowest - ranks[0].work_seconds;
    statistics.end_step(static_cast<std::uint64_t>(step),
                        {.seconds = slowest + job.exposed,
                         .reduction_seconds = job.reductions > 0 ? job.reductions + wait : 0});
    if (step < delay) continue;
    statistics.add_ranks(static_cast<std::uint64_t>(step - delay), ranks_in(job, step - delay));
  }
}

StepStatistics statistics_of(const Job& job, int steps) {
  StepStatistics statistics(0, job.world_size, 1'000'000);
  run(statistics, job, steps);
  return statistics;
}

Approx approx(double value) { return Approx(value).epsilon(1e-9); }

std::ptrdiff_t lines_in(const std::string& text) { return std::ranges::count(text, '\n'); }

}  // namespace

TEST_CASE("the parts of a step add up to it, for any number of ranks", "[statistics]") {
  for (const int world_size : {1, 2, 3, 4}) {
    INFO(world_size << " ranks");
    Job job{.world_size = world_size, .exposed = world_size == 1 ? 0 : 2 * kMs};
    // Rank r computes for 20 + r ms and waits 1 ms for data.
    job.compute = [](int rank, int) { return (20 + rank) * kMs; };
    job.data = [](int, int) { return 1 * kMs; };
    const StepCosts costs = statistics_of(job, 101).costs();
    CHECK(costs.steps == 99);  // without the first, and the last is not known yet
    const double mean_rank = (world_size - 1) / 2.0;
    CHECK(costs.compute_seconds == approx((20 + mean_rank) * kMs));
    CHECK(costs.data_seconds == approx(1 * kMs));
    CHECK(costs.straggler_seconds + 1 == approx(1 + mean_rank * kMs));
    CHECK(costs.exposed_seconds + 1 == approx(1 + job.exposed));
    CHECK(costs.step_seconds() == approx((20 + world_size) * kMs + job.exposed));
  }
}

TEST_CASE("the speed-up is the ranks' work over the time of a step", "[statistics]") {
  CHECK(statistics_of({.world_size = 1, .exposed = 0}, 50).costs().speed_up == approx(1));
  CHECK(statistics_of({.world_size = 4, .exposed = 0}, 50).costs().speed_up == approx(4));
  // 22 ms instead of 3 x 20 ms.
  CHECK(statistics_of({.world_size = 3}, 50).costs().speed_up == approx(60.0 / 22));
  // With a rank that is 200 ms late, two ranks are slower than one, which would need 2 x 20 ms.
  Job slow{.exposed = 0};
  slow.compute = [](int rank, int) { return (20 + 200 * rank) * kMs; };
  CHECK(statistics_of(slow, 52).costs().speed_up == approx(40.0 / 220));
}

TEST_CASE("bandwidth and overlap are those without the wait for others", "[statistics]") {
  Job job{.world_size = 4, .exposed = 2 * kMs, .reductions = 8 * kMs};
  job.compute = [](int rank, int) { return (20 + 5 * rank) * kMs; };  // rank 0 waits 15 ms
  const StepCosts costs = statistics_of(job, 50).costs();
  REQUIRE(costs.bus_bandwidth.has_value());
  CHECK(*costs.bus_bandwidth == approx(1e6 / (8 * kMs) * 2 * 3 / 4));
  CHECK(costs.overlap.value() == approx(0.75));
  job.reductions = 0;
  CHECK_FALSE(statistics_of(job, 50).costs().bus_bandwidth.has_value());
}

TEST_CASE("bandwidth is not reported after only a few steps", "[statistics]") {
  Job job;
  job.reductions = 8 * kMs;
  const StepCosts costs = statistics_of(job, 8).costs();
  CHECK(costs.steps > 0);
  CHECK_FALSE(costs.bus_bandwidth.has_value());
  CHECK_FALSE(costs.overlap.has_value());
}

TEST_CASE("200 ms in one rank are reported with rank, amount and cause within 20 steps",
          "[statistics]") {
  for (const int world_size : {2, 3, 4}) {
    for (int slow = 0; slow < world_size; ++slow) {
      for (const int begin : {0, 1, 3, 6, 9, 35}) {
        for (const Lateness cause : {Lateness::kCompute, Lateness::kData}) {
          INFO(world_size << " ranks, rank " << slow << " from step " << begin);
          std::mt19937 random(7);
          std::normal_distribution<double> noise(0, 0.5 * kMs);
          const auto late = [&](int rank, int step) {
            return rank == slow && step >= begin ? 200 * kMs : 0;
          };
          Job job{.world_size = world_size};
          job.compute = [&](int rank, int step) {
            return 5 * kMs + std::abs(noise(random)) +
                   (cause == Lateness::kCompute ? late(rank, step) : 0);
          };
          job.data = [&](int rank, int step) {
            return 1 * kMs + (cause == Lateness::kData ? late(rank, step) : 0);
          };
          const std::vector<Straggler> found = statistics_of(job, begin + 20).costs().stragglers;
          REQUIRE(found.size() == 1);
          CHECK(found[0].rank == slow);
          CHECK(found[0].cause == cause);
          CHECK(found[0].late_now_seconds == Approx(200 * kMs).epsilon(0.1));
        }
      }
    }
  }
}

TEST_CASE("single slow steps and small differences are not reported", "[statistics]") {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 0.5 * kMs);
  Job job{.world_size = 4};
  // Occasionally one rank, a different one each time, takes far longer.
  job.compute = [&](int rank, int step) {
    return 20 * kMs + noise(random) + (step % 7 == rank ? 300 * kMs : 0);
  };
  const StepStatistics statistics = statistics_of(job, 400);
  CHECK(statistics.costs().stragglers.empty());
  CHECK_THAT(advice_on(statistics.costs()), Contains("none is always late"));
}

TEST_CASE("a rank that is mostly the last, though by no usual amount, is named", "[statistics]") {
  StepCosts costs{.world_size = 2,
                  .steps = 100,
                  .compute_seconds = 20 * kMs,
                  .straggler_seconds = 5 * kMs,
                  .most_often_last = {.rank = 1, .fraction = 0.96}};
  CHECK_THAT(advice_on(costs), Contains("rank 1 is the last in 96 % of the steps") &&
                                   !Contains("none is always late"));
  costs.steps = 3;
  CHECK(advice_on(costs) == "too few steps to tell");
}

TEST_CASE("two of four ranks may be late, each by its own amount", "[statistics]") {
  Job job{.world_size = 4};
  job.compute = [](int rank, int) { return (20 + (rank % 2) * 10 * rank) * kMs; };
  const std::vector<Straggler> found = statistics_of(job, 52).costs().stragglers;
  REQUIRE(found.size() == 2);
  CHECK(found[0].rank == 3);
  CHECK(found[0].late_seconds == approx(30 * kMs));
  CHECK(found[1].rank == 1);
  CHECK(found[1].late_seconds == approx(10 * kMs));
}

TEST_CASE("a lateness that is small beside the slowest rank's is not reported", "[statistics]") {
  // The step takes no longer for it, and scheduling alone makes a rank late in so short a step.
  Job job{.world_size = 4};
  job.compute = [](int rank, int) { return (rank == 3 ? 50 : rank == 1 ? 0.03 : 0.02) * kMs; };
  const std::vector<Straggler> found = statistics_of(job, 52).costs().stragglers;
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 3);
}

TEST_CASE("a rank with fewer samples than the others makes no rank a straggler", "[statistics]") {
  Job job{.world_size = 3};
  job.compute = [](int rank, int) { return (rank == 2 ? 20 : 30) * kMs; };
  const StepStatistics statistics = statistics_of(job, 52);
  CHECK(statistics.costs().stragglers.empty());
  CHECK(statistics.costs().straggler_seconds == approx(10.0 / 3 * kMs));
  CHECK(statistics.costs().speed_up == approx(80.0 / 32));
}

TEST_CASE("a rank that ran out of data makes no rank a straggler, and no later step a pause",
          "[statistics]") {
  StepStatistics statistics(0, 2, 1'000'000);
  for (std::uint64_t step = 0; step < 92; ++step) {
    const bool is_idle = step > 30 && step <= 60;
    const std::vector<RankTimes> ranks = {{(is_idle ? 0.01 : 20) * kMs, 0, is_idle}, {20 * kMs, 0}};
    statistics.end_step(step, {.seconds = 22 * kMs});
    statistics.add_ranks(step, ranks);
  }
  const StepCosts costs = statistics.costs();
  CHECK(costs.stragglers.empty());
  CHECK(costs.pauses == 0);
  CHECK(costs.steps == 91);
  CHECK(costs.straggler_seconds == approx(30 * 19.99 / 2 / 91 * kMs));
  CHECK(costs.idle_steps == 30);
  CHECK(costs.beside_idle_seconds == approx(costs.straggler_seconds));
  CHECK_THAT(advice_on(statistics.costs()),
             Contains("in 30 of 91 steps, some rank had no samples and waited for the others"));
}

TEST_CASE("a rank that has recovered is in the report, but not late any more", "[statistics]") {
  Job job;
  job.compute = [](int rank, int step) { return (20 + (rank == 1 && step < 50 ? 40 : 0)) * kMs; };
  const StepStatistics statistics = statistics_of(job, 202);
  const std::vector<Straggler> found = statistics.costs().stragglers;
  REQUIRE(found.size() == 1);
  CHECK(found[0].steps == 50);
  CHECK(found[0].late_now_seconds == 0);
  CHECK_THAT(advice_on(statistics.costs()),
             Contains("rank 1 is 40.0 ms late in 50 of 200 steps (compute)"));
}

TEST_CASE("a suspension within a reduction is a pause, but slow reductions are not",
          "[statistics]") {
  const auto costs_with = [](double exposed_in_step_50, double exposed_later = 2 * kMs) {
    StepStatistics statistics(0, 2, 1'000'000);
    for (std::uint64_t step = 0; step < 102; ++step) {
      const double exposed = step == 50 ? exposed_in_step_50 : step > 50 ? exposed_later : 2 * kMs;
      statistics.end_step(step, {.seconds = 20 * kMs + exposed});
      statistics.add_ranks(step, std::vector<RankTimes>{{20 * kMs, 0}, {20 * kMs, 0}});
    }
    return statistics.costs();
  };
  const StepCosts suspended = costs_with(45);
  CHECK(suspended.pauses == 1);
  CHECK(suspended.pause_seconds == approx(45.02));
  CHECK(suspended.exposed_seconds == approx(2 * kMs));
  CHECK(costs_with(0.9).pauses == 0);
  const StepCosts slow = costs_with(1.2, 1.2);  // a network that stays slow
  CHECK(slow.pauses < 15);
  CHECK(slow.exposed_seconds > 0.4);
}

TEST_CASE("pauses are left out and counted, but waits for data are not", "[statistics]") {
  Job job;
  job.compute = [](int, int step) { return (step % 100 == 99 ? 3000 : 20) * kMs; };
  const StepCosts costs = statistics_of(job, 302).costs();
  CHECK(costs.steps == 297);
  CHECK(costs.pauses == 3);
  CHECK(costs.pause_seconds == approx(3 * 3002 * kMs));
  CHECK(costs.compute_seconds == approx(20 * kMs));
  Job hungry;
  hungry.data = [](int, int step) { return step % 100 == 99 ? 3.0 : 0.0; };
  CHECK(statistics_of(hungry, 302).costs().pauses == 0);
  // Also beside a rank that never has samples.
  StepStatistics beside_idle(0, 2, 1'000'000);
  for (std::uint64_t step = 0; step < 302; ++step) {
    const double work = (step % 100 == 99 ? 3000 : 20) * kMs;
    beside_idle.end_step(step, {.seconds = work + 2 * kMs});
    beside_idle.add_ranks(step, std::vector<RankTimes>{{work, 0}, {0.01 * kMs, 0, true}});
  }
  CHECK(beside_idle.costs().pauses == 3);
  CHECK(beside_idle.costs().steps == 298);
  // A job that becomes slow and stays slow soon no longer counts as pausing.
  Job slower;
  slower.compute = [](int, int step) { return (step < 50 ? 1 : 30) * kMs; };
  CHECK(statistics_of(slower, 302).costs().pauses < 10);
}

TEST_CASE("a rank that stands still once is named and does not change the means", "[statistics]") {
  Job job;
  job.compute = [](int rank, int step) { return rank == 1 && step == 60 ? 15.0 : 20 * kMs; };
  const StepStatistics statistics = statistics_of(job, 102);
  const StepCosts costs = statistics.costs();
  CHECK(costs.steps == 99);
  CHECK(costs.pauses == 0);
  CHECK(costs.stalls.steps == 1);
  CHECK(costs.straggler_seconds == approx(0));
  CHECK_THAT(format_report(statistics.costs()),
             Contains("left out: 1 step in which one rank stood still, 15.0 s in all; the longest "
                      "was rank 1's, 15.0 s\n"));
  // A rank that becomes slow and stays slow is a straggler, and its steps count.
  Job slower;
  slower.compute = [](int rank, int step) { return (rank == 1 && step >= 50 ? 300 : 20) * kMs; };
  const StepStatistics late = statistics_of(slower, 302);
  CHECK(late.costs().stalls.steps < 10);
  REQUIRE(late.costs().stragglers.size() == 1);
  CHECK(late.costs().stragglers[0].late_seconds == approx(280 * kMs));
}

TEST_CASE("ranks' times may come late or be missing", "[statistics]") {
  const Job job;
  StepStatistics late(0, 2, 1);
  run(late, job, 102, 16);
  CHECK(late.costs().steps == 85);
  CHECK(late.costs().compute_seconds == approx(20 * kMs));
  StepStatistics too_late(0, 2, 1);
  run(too_late, job, 102, static_cast<int>(StepStatistics::kMaxDelay));
  CHECK(too_late.costs().steps == 0);
  const std::vector<RankTimes> ranks = ranks_in(job, 5);
  late.add_ranks(3, ranks);    // counted long ago
  late.add_ranks(500, ranks);  // not recorded yet
  CHECK(late.costs().steps == 85);
  const std::vector<RankTimes> three(3);
  CHECK_THAT(error_of([&] { late.add_ranks(101, three); }), Contains("3 ranks, not of 2"));
  CHECK_THAT(error_of([] { StepStatistics(2, 2, 1); }), Contains("rank 2 of 2"));
}

TEST_CASE("the statistics of a step allocate nothing", "[statistics]") {
  StepStatistics statistics(1, 4, 1);
  const std::vector<RankTimes> ranks(4, {20 * kMs, 1 * kMs});
  const std::int64_t before = test::allocations();
  for (std::uint64_t step = 0; step < 100; ++step) {
    statistics.end_step(step, {.seconds = 22 * kMs, .reduction_seconds = 5 * kMs});
    statistics.add_ranks(step, ranks);
  }
  CHECK(test::allocations() == before);
}

TEST_CASE("the report is short and says what a step costs", "[statistics]") {
  Job job{.exposed = 1.2 * kMs, .reductions = 4 * kMs};
  job.compute = [](int, int step) { return (step == 50 ? 900 : 20) * kMs; };
  job.data = [](int, int) { return 0.5 * kMs; };
  const std::string report = format_report(statistics_of(job, 103).costs());
  INFO(report);
  CHECK(report ==
        "100 steps of 21.7 ms on 2 ranks; estimated speed-up over one rank: 1.89\n"
        "  compute                  20.00 ms  92.2 %\n"
        "  exposed communication     1.20 ms   5.5 %  not hidden behind backward\n"
        "  data wait                 0.50 ms   2.3 %  for the next batch\n"
        "  straggler wait            0.00 ms   0.0 %  for the slowest rank\n"
        "1.00 MB reduced in each step at 0.25 GB/s (bus bandwidth), 70 % of that time hidden\n"
        "left out: 1 far longer step, 902 ms in all (such as evaluation, saving or a suspension)\n"
        "advice: communication is exposed: larger batches or accumulate() make it rarer, bf16 "
        "compression makes it smaller\n");
  const std::string alone =
      format_report(statistics_of({.world_size = 1, .exposed = 0}, 50).costs());
  CHECK_THAT(alone, StartsWith("48 steps of 20.0 ms on 1 rank\n"));
  CHECK(lines_in(alone) == 4);
  CHECK_THAT(format_report(statistics_of({}, 2).costs()), Contains("too few steps"));
}

TEST_CASE("the advice is about the largest loss", "[statistics]") {
  const auto advice = [](StepCosts costs) {
    costs.world_size = 4;
    costs.steps = 100;
    costs.compute_seconds = 0.1;
    return advice_on(costs);
  };
  CHECK_THAT(advice({.data_seconds = 0.003}), Contains("nothing stands out: 97 %"));
  CHECK_THAT(advice({.exposed_seconds = 0.02, .data_seconds = 0.03}), Contains("num_workers"));
  CHECK(advice_on({.world_size = 2, .steps = 100, .compute_seconds = 5e-4, .data_seconds = 7e-5}) ==
        "ranks wait 70.0 us for each batch, about as long as it takes to hand one over: larger "
        "batches make that rarer");
  CHECK_THAT(
      advice({.exposed_seconds = 0.04, .data_seconds = 0.03, .bytes = 1 << 20, .overlap = 0.2}),
      Contains("only 20 % of the communication is hidden"));
  CHECK_THAT(advice({.exposed_seconds = 0.4, .bytes = 1 << 20, .overlap = 0.2}),
             StartsWith("communication is exposed") && Contains("compression"));
  CHECK(advice({.exposed_seconds = 0.4, .on_cpu = true, .bytes = 1 << 20}) ==
        "communication is exposed: larger batches or accumulate() make it rarer");
  // Smaller messages would take as long.
  CHECK(advice({.exposed_seconds = 0.04, .bytes = 100, .overlap = 0.2}) ==
        "communication is exposed: larger batches or accumulate() make it rarer");
  const Straggler computes{.rank = 2, .late_seconds = 0.198, .steps = 100};
  CHECK_THAT(advice({.straggler_seconds = 0.15, .stragglers = {computes}}),
             StartsWith("rank 2 is 198 ms late in each step (compute)"));
  Straggler waits = computes;
  waits.cause = Lateness::kData;
  CHECK_THAT(advice({.straggler_seconds = 0.15, .stragglers = {waits}}),
             Contains("(data)") && Contains("num_workers"));
}

TEST_CASE("the advice has digits for steps of microseconds, too", "[statistics]") {
  const Straggler late{.rank = 2, .late_seconds = 4e-6, .steps = 100};
  CHECK_THAT(advice_on({.world_size = 4,
                        .steps = 100,
                        .compute_seconds = 1e-5,
                        .straggler_seconds = 3e-6,
                        .stragglers = {late}}),
             StartsWith("rank 2 is 4.0 us late in each step"));
}
