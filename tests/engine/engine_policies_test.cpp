// SPDX-License-Identifier: MIT
//
// What the engine warns of, decisions of all ranks, and the numbers of ranks and steps in messages.
// uneven_data_test.cpp and engine_construction_test.cpp have ranks whose data or engines differ.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "support/engine.h"
#include "support/engine_trainee.h"
#include "support/stderr_capture.h"

using namespace ddp;
using test::count_lines;
using test::error_of;
using test::errors_of_ranks;
using test::expect;
using test::kNan;
using test::mark_all;
using test::run_on_all_backends;
using Trainee = test::EngineTrainee;

// Ranks 1 and 3 of the job are ranks 0 and 1 of this group.
TEST_CASE("an engine names ranks by their numbers in the job, also in a part of it", "[engine]") {
  const auto errors_of_part = [](const auto& go_wrong) {
    std::vector<std::string> errors(4);
    test::run_groups(Backend::kShm, 4, [&](ProcessGroup& job) {
      const auto part = job.split(job.rank() % 2, 0);
      const auto rank = static_cast<std::size_t>(job.rank());
      errors[rank] = error_of([&] {
        Trainee trainee(*part, {.non_finite = NonFinite::kStop, .scan_gradients = true});
        go_wrong(trainee, job.rank());
      });
    });
    CHECK(errors[0].empty());
    CHECK(errors[2].empty());
    CHECK_FALSE(errors[3].empty());
    return errors[1];
  };
  CHECK_THAT(errors_of_part([](Trainee& trainee, int rank) {
               trainee.step(1);
               trainee.step(1, {.epoch = rank == 3 ? 1 : 0});
             }),
             Catch::Contains("rank 1 in epoch 0, rank 3 in epoch 1"));
  CHECK_THAT(errors_of_part([](Trainee& trainee, int rank) { trainee.step(rank == 3 ? kNan : 1); }),
             Catch::Contains("it came from rank 3 ("));
  CHECK_THAT(errors_of_part([](Trainee& trainee, int rank) {
               for (int step = 0; step < 4; ++step) {
                 trainee.model.values[1][3] += rank == 3 ? 1 : 0;
                 trainee.step(1);
               }
             }),
             Catch::Contains("of rank 3 (") && Catch::Contains("from that of rank 1 ("));
}

TEST_CASE("a metric that is not finite is warned of once, unless such steps are stopped or skipped",
          "[engine][finite]") {
  const auto warnings = [](NonFinite policy) {
    const test::StderrCapture captured;
    run_on_all_backends(2, [&](ProcessGroup& group) {
      Trainee trainee(group, {.non_finite = policy});
      for (int step = 0; step < 8; ++step) {
        (void)trainee.ddp.begin_step();
        trainee.ddp.record_metric(1, step >= 3 && group.rank() == 1 ? kNan : 1, 1);
        mark_all(trainee.ddp);
        trainee.ddp.wait();
      }
    });
    return count_lines(captured, "metric 1 is nan in step 4");
  };
  CHECK(warnings(NonFinite::kIgnore) == test::backends().size());
  CHECK(warnings(NonFinite::kSkip) == 0);
}

TEST_CASE("parameters that are not finite any more are warned of once", "[engine][finite]") {
  const auto warnings = [](NonFinite policy) {
    const test::StderrCapture captured;
    run_on_all_backends(2, [&](ProcessGroup& group) {
      Trainee trainee(group, {.non_finite = policy});
      for (int step = 1; step <= 16; ++step) {
        trainee.step(1);
        if (step == 5) trainee.model.values[1][3] = trainee.model.values[2][0] = kNan;
      }
    });
    return count_lines(captured, "parameter 'fc1.bias' (and 1 more) is not finite before step 8");
  };
  CHECK(warnings(NonFinite::kIgnore) == test::backends().size());
  CHECK(warnings(NonFinite::kSkip) == 0);
}

TEST_CASE("passes that were never reduced are warned of at the end", "[engine][accumulation]") {
  const test::StderrCapture captured;
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee announced(group, {});
    announced.ddp.accumulate(3);
    announced.step(1);
    Trainee guarded(group, {});
    const auto guard = guarded.ddp.no_sync();
    guarded.step(1);
    Trainee complete(group, {});
    complete.ddp.accumulate(2);
    complete.step(1);
    complete.step(1);
  });
  CHECK(count_lines(captured, "never reduced, because accumulate()") == test::backends().size());
  CHECK(count_lines(captured, "never reduced, because a no_sync()") == test::backends().size());
}

TEST_CASE("an optimizer that asks too early is told what holds back the reduction",
          "[engine][accumulation]") {
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    const auto error_after_pass = [](Trainee& trainee) {
      trainee.step(1);
      return error_of([&] { (void)trainee.ddp.gradient_scale(); });
    };
    Trainee announced(group, {});
    announced.ddp.accumulate(2);
    const std::string early = error_after_pass(announced);
    expect(early.ends_with("accumulate() announced further backward passes for this step"), early);
    announced.step(1);
    Trainee guarded(group, {});
    {
      const auto guard = guarded.ddp.no_sync();
      const std::string held = error_after_pass(guarded);
      expect(held.ends_with("must be outside no_sync()"), held);
    }
    guarded.step(1);
  });
}

TEST_CASE("ranks that do not broadcast their buffers alike are told that it is these",
          "[engine][buffers]") {
  const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
    std::vector<float> mean(3);
    Trainee trainee(group, {.buffers = {{"mean", buffer_of(mean)}}});
    trainee.step(1);
    if (group.rank() == 1) trainee.ddp.broadcast_buffers();
    trainee.step(1);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("sum) (control vector), rank 1 called #") &&
                          Catch::Contains("root 0) (buffers of a model)"));
  }
}

TEST_CASE("a loop inside a no_sync() guard is warned of once", "[engine][accumulation]") {
  const test::StderrCapture captured;
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    {
      const auto guard = trainee.ddp.no_sync();
      for (int pass = 0; pass < 1100; ++pass) trainee.step(1);
    }
    trainee.step(1);
  });
  CHECK(count_lines(captured, "kept 1000 backward passes in a row from being reduced") == 1);
}

TEST_CASE("ranks vote, and agree in the same step", "[engine][agree]") {
  for (const int world_size : {1, 2, 3, 4}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Trainee trainee(group, {});
      DistributedDataParallel& ddp = trainee.ddp;
      const int last = group.world_size() - 1;
      for (int step = 0; step < 6; ++step) {
        (void)ddp.begin_step({.asks_to_stop = group.rank() == last && step == 4});
        ddp.vote(0, group.rank() == last && step == 2);
        ddp.vote(7, step != 3 || group.rank() == 0);
        mark_all(ddp);
        expect(!error_of([&] { ddp.vote(0, true); }).empty(), "too late");
        ddp.wait();
        expect(ddp.agreed(0, Quorum::kAny) == (step == 2), "any");
        expect(ddp.agreed(0, Quorum::kAll) == (step == 2 && last == 0), "all");
        expect(ddp.agreed(7, Quorum::kAll) == (step != 3 || last == 0), "all but one step");
        expect(ddp.stop_requested() == (step == 4), "somebody asked");
      }
    });
  }
}

TEST_CASE("there are eight vote slots", "[engine][agree]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    DistributedDataParallel& ddp = trainee.ddp;
    (void)ddp.begin_step();
    const std::string expected = "[ddp] vote slot 8 is not below 8";
    expect(error_of([&] { ddp.vote(kMaxVotes, true); }) == expected, "it to be refused");
    mark_all(ddp);
    ddp.wait();
    expect(error_of([&] { (void)ddp.agreed(kMaxVotes, Quorum::kAny); }) == expected, "and here");
  });
}

TEST_CASE("a vote counts once in a step of several passes", "[engine][agree]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    DistributedDataParallel& ddp = trainee.ddp;
    ddp.accumulate(3);
    for (int pass = 0; pass < 3; ++pass) {
      (void)ddp.begin_step({.asks_to_stop = pass == 0 && group.rank() == 1});
      ddp.vote(1, group.rank() == 0);
      ddp.vote(2, pass == group.rank());
      mark_all(ddp);
      ddp.wait();
    }
    expect(!ddp.agreed(1, Quorum::kAll) && ddp.agreed(1, Quorum::kAny), "one of two");
    expect(ddp.agreed(2, Quorum::kAll), "each in one pass");
    expect(ddp.stop_requested(), "asked for in the first pass");
    expect(ddp.summary().active_ranks == 2, "ranks, not passes");
  });
}

TEST_CASE("after a resume, messages number the steps of the whole training", "[engine][resume]") {
  constexpr std::int64_t kBefore = 20;
  SECTION("a rank's error, and where the group is") {
    const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
      Trainee trainee(group, {});
      trainee.ddp.continue_after(kBefore);
      trainee.step(1);
      expect(group.recorder().position().step == kBefore + 1, "the first step's number");
      expect(group.recorder().position().begun_steps == 1, "one step of this process");
      expect(trainee.ddp.statistics().steps == 1, "one step of this engine");
      (void)trainee.ddp.begin_step();
      for (const std::size_t i : {2, 1, 0}) {
        if (group.rank() != 1 || i != 1) trainee.ddp.mark_ready(i);
      }
      trainee.ddp.wait();
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, Catch::Contains(
                            "[ddp] rank 1, step 22: backward gave no gradient for 'fc1.bias'"));
    }
  }
  SECTION("a gradient that is not finite") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Trainee trainee(group, {.non_finite = NonFinite::kStop});
      trainee.ddp.continue_after(kBefore);
      trainee.step(1);
      trainee.step(kNan);
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, Catch::Contains("[ddp] step 22: the reduced gradient of "));
    }
  }
  SECTION("diverged replicas, which are compared as if the step after it were the first") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Trainee trainee(group, {.fingerprint_every = 4});
      trainee.ddp.continue_after(kBefore + 3);
      for (int step = 0; step < 9; ++step) {
        if (step == 1 && group.rank() == 1) trainee.model.values[1][3] += 1;
        trainee.step(1);
      }
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, Catch::Contains("replicas have diverged: step 25: parameter 'fc1.bias'"));
    }
  }
}

TEST_CASE("where a training continues is told to an engine before its first step",
          "[engine][resume]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    const std::string negative = error_of([&] { trainee.ddp.continue_after(-1); });
    expect(negative == "[ddp] continue_after(-1): the number of steps must not be negative",
           negative);
    trainee.step(1);
    const std::string late = error_of([&] { trainee.ddp.continue_after(5); });
    expect(late == "[ddp] continue_after was called after the first begin_step", late);
  });
}
