// SPDX-License-Identifier: MIT
//
// How the engine handles gradients that are not finite: which steps it skips, and whom it names.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/child_process.h"
#include "support/engine.h"
#include "support/engine_trainee.h"
#include "support/stderr_capture.h"

using namespace ddp;
using test::contains;
using test::errors_of_ranks;
using test::expect;
using test::kNan;
using test::mark_all;
using test::Model;
using test::run_on_all_backends;
using test::write_gradient;
using Trainee = test::EngineTrainee;

TEST_CASE("a step whose gradients are not finite is skipped on all ranks", "[engine][finite]") {
  for (const int world_size : {1, 2, 3}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Trainee trainee(group, {.non_finite = NonFinite::kSkip});
      const bool is_culprit = group.rank() == group.world_size() - 1;
      for (const double value : {1.0, kNan, std::numeric_limits<double>::infinity(), 2.0}) {
        const bool is_good = std::isfinite(value);
        trainee.step(is_culprit || is_good ? value : 1.0);
        expect(trainee.ddp.should_step() == is_good, "a step only with finite gradients");
      }
      expect(trainee.ddp.statistics().skipped_steps == 2, "counted");
    });
  }
}

TEST_CASE("only a few of many skipped steps are logged, and the report counts them",
          "[engine][finite]") {
  std::string report;
  const test::StderrCapture captured;
  test::run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    Trainee trainee(group, {.non_finite = NonFinite::kSkip});
    trainee.step(1);
    expect(!contains(trainee.ddp.report(), "skipped"), "nothing is skipped yet");
    for (int step = 0; step < 9; ++step) trainee.step(kNan);
    if (group.rank() == 0) report = trainee.ddp.report();
  });
  CHECK(contains(report, "skipped: 9 of 10 steps, whose gradients were not finite\n"));
  std::string told;
  for (const std::string& line : test::lines_of(captured.text())) {
    if (contains(line, "the step is skipped")) told += line.substr(line.rfind('('));
  }
  CHECK(told == "(1 so far)(2 so far)(4 so far)(8 so far)");
}

TEST_CASE("an error about gradients names step, parameter and rank", "[engine][finite]") {
  for (const bool scan : {false, true}) {
    const auto errors = errors_of_ranks(3, [&](ProcessGroup& group) {
      Trainee trainee(group, {.non_finite = NonFinite::kStop, .scan_gradients = scan});
      trainee.step(1);
      (void)trainee.ddp.begin_step({.samples = group.rank() == 0 ? 0.0 : 1.0});
      for (std::size_t i = 0; i < 3; ++i) write_gradient(trainee.ddp, i, 1);
      if (group.rank() == 2) trainee.ddp.gradient(1).as<double>()[6] = kNan;
      mark_all(trainee.ddp);
      trainee.ddp.wait();
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error,
                 Catch::Contains("step 2: the reduced gradient of 'fc1.bias' is not finite"));
      CHECK(contains(error, "it came from rank 2 ('fc1.bias')") == scan);
    }
  }
}

TEST_CASE("the rank is named in the first step after a skipped one that is skipped, too",
          "[engine][finite]") {
  const test::StderrCapture captured;
  test::run_groups(Backend::kShm, 3, [](ProcessGroup& group) {
    Trainee trainee(group, {.non_finite = NonFinite::kSkip});
    // The fifth and the sixth skipped step are the first that follow each other.
    for (const double value : {kNan, 1.0, kNan, 1.0, kNan, 1.0, kNan, 1.0, kNan, kNan, 1.0, kNan}) {
      trainee.step(group.rank() == 1 ? value : 1.0);
    }
    expect(trainee.ddp.statistics().skipped_steps == 7, "all of them");
  });
  std::string told;
  for (const std::string& line : test::lines_of(captured.text())) {
    if (!contains(line, "the step is skipped")) continue;
    told += contains(line, "step 10: ") && contains(line, "it came from rank 1 (") ? "named" : "-";
  }
  CHECK(told == "---named");  // the 1st, 2nd and 4th, and the 6th
}

TEST_CASE("the rank is named even if its gradients are in the caller's memory",
          "[engine][finite]") {
  const auto errors = errors_of_ranks(3, [&](ProcessGroup& group) {
    Model model(0);
    std::vector<std::vector<double>> own = model.values;
    for (std::size_t i = 0; i < 3; ++i) model.parameters[i].grad = buffer_of(own[i]);
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.non_finite = NonFinite::kStop, .scan_gradients = true});
    ddp.accumulate(2);
    for (const bool is_second : {false, true}) {
      const bool has_samples = !is_second || group.rank() == 0;
      (void)ddp.begin_step({.samples = has_samples ? 1.0 : 0.0});
      if (has_samples) {
        if (group.rank() == 2) own[1][6] = kNan;
        mark_all(ddp);
      }
      ddp.wait();
    }
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("it came from rank 2 ('fc1.bias')"));
  }
}

TEST_CASE("the rank is named whose NaN comes from a later pass without samples",
          "[engine][finite]") {
  const auto errors = errors_of_ranks(2, [&](ProcessGroup& group) {
    Trainee trainee(group, {.non_finite = NonFinite::kStop, .scan_gradients = true});
    trainee.ddp.accumulate(2);
    trainee.step(1);
    const bool is_bad = group.rank() == 1;
    trainee.step(is_bad ? kNan : 1, {.samples = is_bad ? 0.0 : 1.0});
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("it came from rank 1 ("));
  }
}

TEST_CASE("a rank is not named again for what it had in an earlier step", "[engine][finite]") {
  const test::StderrCapture captured;
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, {.non_finite = NonFinite::kSkip, .scan_gradients = true});
    const bool is_root = group.rank() == 0;
    trainee.step(is_root ? 1 : kNan);
    trainee.step(is_root ? kNan : 1, {.samples = is_root ? 1.0 : 0.0});
  });
  std::size_t lines = 0;
  for (const std::string& line : test::lines_of(captured.text())) {
    if (!contains(line, "step 2: ")) continue;
    ++lines;
    CHECK_THAT(line, Catch::Contains("it came from rank 0 (") && !Catch::Contains("rank 1 ("));
  }
  CHECK(lines == test::backends().size());
}
