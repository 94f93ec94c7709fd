// SPDX-License-Identifier: MIT
//
// Checks that the engine finds a late rank, and that all ranks find the same.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "support/engine.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::expect;
using test::mark_all;
using test::Model;

namespace {

constexpr int kSteps = 20;
constexpr Clock::duration kLate = 50ms;
// What each rank computes in a step: long beside the moments that a busy machine may add, which
// would make pauses of half of the steps if the fastest rank computed for microseconds only.
constexpr Clock::duration kCompute = 3ms;

// The rank that is late in every step, how late it is, and in which part of the step.
struct Delay {
  int rank;
  Lateness cause;
  Clock::duration length;
  bool meets_in_forward = false;  // whether all ranks have a collective behind the delay
};

double seconds_of(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// The stragglers that a rank reports after kSteps.
std::vector<Straggler> found_by(ProcessGroup& group, const Delay& delay) {
  Model model(0);
  const auto shared = group.shared_from_this();
  DistributedDataParallel ddp(shared, model.parameters);
  for (int step = 0; step < kSteps; ++step) {
    StepOptions options;
    if (group.rank() == delay.rank && delay.cause == Lateness::kData) {
      std::this_thread::sleep_for(delay.length);
      options.data_seconds = seconds_of(delay.length);
    }
    (void)ddp.begin_step(options);
    std::this_thread::sleep_for(kCompute);
    if (group.rank() == delay.rank && delay.cause == Lateness::kCompute) {
      std::this_thread::sleep_for(delay.length);
    }
    if (delay.meets_in_forward) group.barrier().wait();
    mark_all(ddp);
    ddp.wait();
  }
  return ddp.step_costs().stragglers;
}

// Expects that only this rank was found; returns what was found of it.
Straggler expect_only(int rank, const std::vector<Straggler>& found) {
  std::string text = "rank " + std::to_string(rank) + " is named, alone; found:";
  for (const Straggler& each : found) {
    text += " rank " + std::to_string(each.rank) + " (" + std::to_string(each.late_seconds) +
            " s in " + std::to_string(each.steps) + " steps)";
  }
  expect(found.size() == 1 && found[0].rank == rank, text);
  return found[0];
}

}  // namespace

TEST_CASE("a rank that is late in each step is named on all ranks, with the cause", "[straggler]") {
  for (const Lateness cause : {Lateness::kCompute, Lateness::kData}) {
    for (const int world_size : {2, 4}) {
      test::run_groups(Backend::kShm, world_size, [cause](ProcessGroup& group) {
        const int slow = group.world_size() - 1;
        const Straggler found = expect_only(slow, found_by(group, {slow, cause, kLate}));
        expect(found.cause == cause, "and why");
        expect(found.late_now_seconds > 0.9 * seconds_of(kLate), "and by how much");
      });
    }
  }
}

TEST_CASE("a late rank is named although all ranks meet before their backward ends",
          "[straggler]") {
  for (const Backend backend : {Backend::kShm, Backend::kTcp}) {
    test::run_groups(backend, 3, [](ProcessGroup& group) {
      const Straggler found = expect_only(1, found_by(group, {1, Lateness::kCompute, kLate, true}));
      expect(found.late_now_seconds > 0.9 * seconds_of(kLate), "and by how much");
    });
  }
}

TEST_CASE("200 ms in one rank's backward are reported within 20 steps", "[straggler]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    const Straggler found = expect_only(0, found_by(group, {0, Lateness::kCompute, 200ms}));
    expect(found.cause == Lateness::kCompute, "for its computing");
    for (const double seconds : {found.late_seconds, found.late_now_seconds}) {
      expect(seconds > 0.19 && seconds < 0.3, std::to_string(seconds) + " s late");
    }
  });
}

TEST_CASE("steps of accumulating ranks and of a single rank are counted, too", "[straggler]") {
  for (const int world_size : {1, 2}) {
    test::run_groups(Backend::kShm, world_size, [](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters, {.record_times = true});
      for (int step = 0; step < 30; ++step) {
        ddp.accumulate(3);
        for (int pass = 0; pass < 3; ++pass) {
          (void)ddp.begin_step({.data_seconds = 1e-9});
          mark_all(ddp);
          ddp.wait();
        }
      }
      const StepCosts costs = ddp.step_costs();
      // All steps except the first and the last two, whose times are not exchanged yet. On a busy
      // machine some are left out as pauses or stalls, since a step takes only microseconds.
      const std::uint64_t expected = group.world_size() == 1 ? 29 : 27;
      const std::uint64_t told = costs.steps + costs.pauses + costs.stalls.steps;
      expect(told == expected, std::to_string(told) + " steps");
      expect(costs.compute_seconds > 0 && costs.data_seconds > 2e-9, "in all passes");
      expect(costs.bus_bandwidth.has_value() == (group.world_size() > 1), "with peers only");
    });
  }
}
