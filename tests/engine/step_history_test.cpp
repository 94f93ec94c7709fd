// SPDX-License-Identifier: MIT
//
// The history of steps: what it keeps, the conversion to one clock, and the drawing.
#include "ddp/engine/statistics/step_history.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ddp/collectives/tcp/tcp_process_group.h"
#include "ddp/engine/statistics/step_svg.h"
#include "support/allocation_counter.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using test::error_of;
using test::expect;

namespace {

// A layout of `buckets` buckets of 8 bytes.
BucketLayout layout_of(std::size_t buckets) {
  const std::vector<GradientSpec> gradients(buckets, {2, DType::kFloat32});
  return lay_out_buckets(gradients, {.min_buckets = buckets});
}

// Step `step` of a rank, which begins at `begin` and lasts step + 1 ms. Only ranks with peers
// reduce.
RankStep step_at(Clock::time_point begin, std::int64_t step, std::size_t buckets, bool reduces) {
  RankStep result{.step = step, .engine = {begin, begin + 1ms, begin + (step + 1) * 1ms, {}}};
  result.data = {begin - 2ms, begin - 1ms};
  for (std::size_t b = 0; b < buckets; ++b) {
    result.engine.buckets.push_back({8, begin + 1us, std::nullopt});
    if (reduces) result.engine.buckets.back().reduction = {begin + 2us, begin + 3us};
  }
  return result;
}

std::ptrdiff_t count_of(const std::string& text, const std::string& what) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a typical step is one that reduces, if any does", "[history]") {
  test::run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    StepHistory history(group, layout_of(4));
    expect(history.typical() == 0, "there is none");
    for (std::int64_t pass = 0; pass < 30; ++pass) {
      history.add(step_at(Clock::now(), pass, 4, pass % 10 == 9));
    }
    expect(history.typical() == 19, "the median of 9, 19, 29");
  });
}

TEST_CASE("a history refuses the step of another engine", "[history]") {
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    StepHistory history(group, layout_of(4));
    for (const std::size_t buckets : {3, 200}) {
      const std::string error =
          error_of([&] { history.add(step_at(Clock::now(), 0, buckets, true)); });
      expect(error.find("but the layout has 4: it is a step of another engine") != error.npos,
             error);
    }
  });
}

TEST_CASE("rank 0 collects what all ranks have kept", "[history]") {
  for (const int world_size : {1, 2, 3}) {
    std::vector<std::vector<RankStep>> seen;
    const Clock::time_point begin = Clock::now();
    test::run_groups(Backend::kShm, world_size, [&](ProcessGroup& group) {
      StepHistory history(group, layout_of(4));
      const Clock::time_point own = begin + group.rank() * 10ms;
      for (std::int64_t step = 0; step < 300; ++step) {
        history.add(step_at(own + step * 100ms, step, 4, group.world_size() > 1));
      }
      history.collect([&](std::span<const RankStep> ranks) {
        expect(group.rank() == 0, "only rank 0 sees them");
        seen.emplace_back(ranks.begin(), ranks.end());
      });
      expect(history.typical() == 150, "the median");
      if (group.rank() > 0) return;
      expect(history.clock_error(world_size - 1) == 0ns, "threads share a clock");
    });
    REQUIRE(seen.size() == 300);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      REQUIRE(seen[i].size() == static_cast<std::size_t>(world_size));
      const RankStep& last = seen[i].back();
      CHECK(last.rank == world_size - 1);
      CHECK(last.step == static_cast<std::int64_t>(i));
      CHECK(last.engine.begin == begin + (world_size - 1) * 10ms + i * 100ms);
      CHECK(last.engine.end - last.engine.begin == (i + 1) * 1ms);
      CHECK(last.data->end - last.data->begin == 1ms);
      CHECK_FALSE(last.forward.has_value());
      REQUIRE(last.engine.buckets.size() == 4);
      CHECK(last.engine.buckets[3].size_bytes == 8);
      CHECK(last.engine.buckets[3].reduction.has_value() == (world_size > 1));
    }
  }
}

TEST_CASE("a history keeps the last steps, in memory that does not grow", "[history]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    constexpr std::size_t kBuckets = 1000;
    constexpr std::int64_t kSteps = 1000;  // more than kMemoryBytes holds
    StepHistory history(group, layout_of(kBuckets));
    const RankStep step = step_at(Clock::now(), 0, kBuckets, true);
    const std::int64_t before = test::allocations();
    for (std::int64_t i = 0; i < kSteps - 1; ++i) history.add(step);
    expect(test::allocations() == before, "no allocation");
    history.add(step_at(Clock::now(), kSteps, kBuckets, true));
    std::int64_t seen = 0;
    std::int64_t last = 0;
    history.collect([&](std::span<const RankStep> ranks) {
      ++seen;
      last = ranks[0].step;
    });
    expect(seen > 200 && seen < kSteps, std::to_string(seen) + " steps are kept");
    expect(last == kSteps, "the last one is");
  });
}

TEST_CASE("clocks are compared by messages, to within the reported error", "[history]") {
  for (const Backend backend : {Backend::kShm, Backend::kTcp}) {
    test::run_groups(backend, 3, [](ProcessGroup& group) {
      const std::vector<ClockReading> readings = read_clocks(group, SharedClocks::kMeasure);
      expect(readings.size() == (group.rank() == 0 ? 3 : 0), "rank 0 has them");
      for (const ClockReading& reading : readings) {
        // Here all ranks have the same clock.
        expect(std::chrono::abs(reading.offset) <= reading.error, "the offset is bounded");
        expect(reading.error < 10s, "by something");
      }
    });
  }
}

TEST_CASE("between two readings a clock is assumed to drift evenly", "[history]") {
  const Clock::time_point zero{};
  const ClockReading early{.when = zero + 100s, .offset = 5ms};
  const ClockReading late{.when = zero + 200s, .offset = 15ms};
  CHECK(on_first_clock(zero + 100s, early, late) == zero + 100s + 5ms);
  CHECK(on_first_clock(zero + 150s, early, late) == zero + 150s + 10ms);
  CHECK(on_first_clock(zero + 200s, early, late) == zero + 200s + 15ms);
  CHECK(on_first_clock(zero + 150s, early, early) == zero + 150s + 5ms);
}

TEST_CASE("a drawn step shows each rank, its buckets and its waits", "[history]") {
  const Clock::time_point begin{};
  std::vector<RankStep> ranks;
  for (const int rank : {0, 1}) {
    ranks.push_back(step_at(begin, 9, 3, true));
    ranks.back().rank = rank;
    ranks.back().engine.backward_end = begin + (2 + rank * 3) * 1ms;  // rank 1 is slower
  }
  const std::string svg = draw_step(ranks, "a <step> & more");
  CHECK_THAT(svg, Contains("a &lt;step&gt; &amp; more") && Contains(">rank 1<"));
  CHECK(count_of(svg, "all_reduce of a bucket 0.001 ms") == 6);
  CHECK(count_of(svg, "waits for the slowest rank 3.000 ms") == 1);
  CHECK(count_of(svg, "exposed reductions 5.000 ms") == 2);
  CHECK(count_of(svg, "data wait 1.000 ms") == 2);
  CHECK(count_of(svg, "forward ") == 0);
  CHECK(count_of(svg, "<script") == 0);
  CHECK(draw_step({}, "").empty());
}
