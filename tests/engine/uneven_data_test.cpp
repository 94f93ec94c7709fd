// SPDX-License-Identifier: MIT
//
// Ranks without data, and ranks whose data differ.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/child_process.h"
#include "support/engine.h"
#include "support/engine_trainee.h"
#include "support/stderr_capture.h"

using namespace ddp;
using test::contains;
using test::count_lines;
using test::errors_of_ranks;
using test::expect;
using test::expect_gradients;
using test::kNan;
using test::mark_all;
using test::run_on_all_backends;
using Trainee = test::EngineTrainee;

TEST_CASE("ranks with 5 and 9 batches take 9 steps together", "[engine][uneven]") {
  for (const int world_size : {2, 3}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Trainee trainee(group, {});
      const int batches = group.rank() == 0 ? 5 : 9;
      int optimizer_steps = 0;
      for (int step = 0;; ++step) {
        const bool has_batch = step < batches;
        trainee.step(has_batch ? group.rank() + step : kNan,
                     {.samples = has_batch ? 1.0 : 0.0, .is_active = has_batch});
        if (trainee.ddp.is_over()) {
          expect(step == 9, "one round ends it");
          expect(!trainee.ddp.should_step(), "nothing to step with");
          break;
        }
        double sum = 0;
        int active = 0;
        for (int rank = 0; rank < group.world_size(); ++rank) {
          if (step >= (rank == 0 ? 5 : 9)) continue;
          sum += rank + step;
          ++active;
        }
        expect(trainee.ddp.should_step(), "an optimizer step on every rank");
        expect(trainee.ddp.summary().active_ranks == active, "the active ranks");
        expect_gradients(trainee.ddp, sum / active);
        ++optimizer_steps;
      }
      expect(optimizer_steps == 9, "as many as the longest has batches");
    });
  }
}

TEST_CASE("a step in which no rank has samples is not an optimizer step", "[engine][uneven]") {
  for (const int world_size : {1, 2, 3}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Trainee trainee(group, {});
      trainee.step(kNan, {.samples = 0});
      expect(!trainee.ddp.is_over(), "the ranks are active");
      expect(!trainee.ddp.should_step(), "there is no gradient");
      trainee.step(1, {.samples = group.rank() == 0 ? 1.0 : 0.0});
      expect(trainee.ddp.should_step(), "there is one");
    });
  }
}

TEST_CASE("one log line names the ranks that ran out of data", "[engine][uneven]") {
  const test::StderrCapture captured;
  run_on_all_backends(3, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    for (int step = 0; !trainee.ddp.is_over(); ++step) {
      const bool has_batch = step < (group.rank() == 1 ? 4 : 2);
      trainee.step(1, {.samples = has_batch ? 1.0 : 0.0, .is_active = has_batch});
    }
  });
  std::size_t lines = 0;
  for (const std::string& line : test::lines_of(captured.text())) {
    if (!contains(line, "ran out of data")) continue;
    ++lines;
    CHECK_THAT(line, Catch::Contains("ranks 0, 2 ran out of data after step 2;"));
  }
  CHECK(lines == test::backends().size());
}

TEST_CASE("a loop that no rank ends is warned of once", "[engine][uneven]") {
  const test::StderrCapture captured;
  for (const int world_size : {1, 2}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Trainee trainee(group, {});
      for (int step = 0; step < 30; ++step) trainee.step(1, {.samples = step < 9 ? 0.0 : 1.0});
      for (int step = 0; step < 30; ++step) trainee.step(1, {.samples = 0});
    });
  }
  CHECK(count_lines(captured, "10 steps in a row had no samples on any rank") ==
        2 * test::backends().size());
}

TEST_CASE("steps without samples are no endless loop once a rank has run out of data",
          "[engine][uneven]") {
  const test::StderrCapture captured;
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    for (int step = 0; step < 15; ++step) {
      trainee.step(1, {.samples = 0, .is_active = group.rank() == 0});
    }
  });
  CHECK(count_lines(captured, "steps in a row had no samples") == 0);
}

TEST_CASE("the summary of the last step stays valid while the next one is open",
          "[engine][uneven]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    trainee.step(1, {.samples = 0, .is_active = false});
    expect(trainee.ddp.is_over(), "nobody has data");
    // Rank 0 has data again: the next epoch's.
    const bool has_data = group.rank() == 0;
    (void)trainee.ddp.begin_step({.samples = has_data ? 1 : 0, .is_active = has_data});
    expect(trainee.ddp.is_over(), "as of the last step");
    mark_all(trainee.ddp);
    trainee.ddp.wait();
    expect(!trainee.ddp.is_over(), "somebody has data");
    (void)trainee.ddp.begin_step({.samples = 0, .is_active = false});
    expect(!trainee.ddp.is_over(), "as of the last step");
    mark_all(trainee.ddp);
    trainee.ddp.wait();
  });
}

TEST_CASE("ranks in different epochs are an error in the same step that names the epochs",
          "[engine][epoch]") {
  const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    trainee.step(1, {.epoch = 7});
    trainee.step(1, {.epoch = group.rank() == 1 ? 0 : 8});
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("ranks are in different epochs of their data") &&
                          Catch::Contains("rank 0 in epoch 8, rank 1 in epoch 0 (") &&
                          !Catch::Contains("rank 2"));
  }
}

TEST_CASE("ranks that read their data in different orders are told so in the first step",
          "[engine][epoch]") {
  const auto errors = errors_of_ranks(4, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    const std::uint32_t plans[] = {0, 0xabc, 0xffffffff, 0xabc};  // 0 is not compared
    trainee.step(1, {.plan_fingerprint = plans[group.rank()]});
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::Contains("ranks read their data in different orders") &&
                   Catch::Contains("rank 1 has order 00000abc, rank 2 has order ffffffff (") &&
                   !Catch::Contains("rank 0") && !Catch::Contains("rank 3"));
  }
}

TEST_CASE("the epoch of a rank without data is ignored", "[engine][epoch]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    const bool is_active = group.rank() == 1;
    trainee.step(1, {.samples = is_active ? 1.0 : 0.0, .epoch = 5});
    trainee.step(
        1, {.samples = is_active ? 1.0 : 0.0, .epoch = is_active ? 6 : 0, .is_active = is_active});
    // Rank 0's data run out between two passes of a step.
    trainee.ddp.accumulate(2);
    trainee.step(1, {.epoch = 7, .plan_fingerprint = 3});
    trainee.step(1, is_active ? StepOptions{.epoch = 7, .plan_fingerprint = 3}
                              : StepOptions{.samples = 0, .is_active = false});
  });
}
