// SPDX-License-Identifier: MIT
//
// How the engine handles ranks without data, ranks whose data or options differ, decisions of all
// ranks, and the numbers of steps and samples in messages.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "support/child_process.h"
#include "support/engine.h"
#include "support/engine_trainee.h"
#include "support/grouping_locale.h"
#include "support/stderr_capture.h"

using namespace ddp;
using test::contains;
using test::error_of;
using test::errors_of_ranks;
using test::expect;
using test::expect_gradients;
using test::kNan;
using test::mark_all;
using test::run_on_all_backends;
using Trainee = test::EngineTrainee;

namespace {

std::size_t count_lines(const test::StderrCapture& captured, const std::string& part) {
  const auto lines = test::lines_of(captured.text());
  return static_cast<std::size_t>(
      std::ranges::count_if(lines, [&](const std::string& line) { return contains(line, part); }));
}

}  // namespace

TEST_CASE("two engines on one group must be used in the same order on all ranks", "[engine]") {
  const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
    Trainee one(group, {});
    Trainee other(group, {});
    for (int step = 0; step < 3; ++step) {
      (void)one.ddp.begin_step();
      (void)other.ddp.begin_step();
      const bool is_swapped = step == 2 && group.rank() == 1;
      for (Trainee* each : {is_swapped ? &other : &one, is_swapped ? &one : &other}) {
        mark_all(each->ddp);
      }
      one.ddp.wait();
      other.ddp.wait();
    }
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("DistributedDataParallel 1 of the group") &&
                          Catch::Contains("DistributedDataParallel 2 of the group") &&
                          Catch::Contains("duplicate()"));
  }
}

TEST_CASE("an engine that a rank constructs anew in the middle of the others' step is told",
          "[engine]") {
  const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
    {
      Trainee trainee(group, {});
      trainee.step(1);
      (void)trainee.ddp.begin_step();
      if (group.rank() == 0) {
        mark_all(trainee.ddp);
        trainee.ddp.wait();
      }
    }
    Trainee(group, {}).step(1);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::Contains("(construction of an engine) for DistributedDataParallel 2") &&
                   Catch::Contains("one rank constructs an engine and the other is in a "
                                   "step of another: all ranks must make the same steps") &&
                   !Catch::Contains("duplicate()"));
  }
}

TEST_CASE("a rank that leaves instead of constructing an engine is told as such", "[engine]") {
  const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) Trainee(group, {});
  });
  CHECK_THAT(errors[0], Catch::Contains("rank 1 (") && Catch::Contains(") left the group") &&
                            Catch::Contains("it constructs fewer engines") &&
                            !Catch::Contains("steps"));
}

TEST_CASE("an engine that only some ranks construct is named, as is one that broadcasts buffers",
          "[engine]") {
  const auto built = errors_of_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 0) Trainee(group, {});
    group.barrier().wait();
  });
  const auto sent = errors_of_ranks(2, [](ProcessGroup& group) {
    std::vector<float> statistics(3);
    Trainee trainee(group, {.buffers = {{"running_mean", buffer_of(statistics)}}});
    if (group.rank() == 0) trainee.ddp.broadcast_buffers();
    group.barrier().wait();
  });
  for (const auto& errors : {built, sent}) {
    for (const std::string& error : errors) {
      CHECK_THAT(error,
                 Catch::Contains("for DistributedDataParallel 1 of the group") &&
                     Catch::Contains("barrier by itself") &&
                     Catch::Contains("all ranks must make the same calls in the same order"));
    }
  }
}

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

TEST_CASE("different policies of ranks are an error at construction", "[engine]") {
  const auto check_text = [](const std::string& text, const DdpOptions& of_0,
                             const DdpOptions& of_1) {
    const auto errors = errors_of_ranks(
        2, [&](ProcessGroup& group) { Trainee trainee(group, group.rank() == 0 ? of_0 : of_1); });
    for (const std::string& error : errors) CHECK(error == "[ddp] models differ in " + text);
  };
  check_text("fingerprint_every: rank 0 has 100, rank 1 has 101", {}, {.fingerprint_every = 101});
  check_text("non_finite: rank 0 has skip, rank 1 has stop", {.non_finite = NonFinite::kSkip},
             {.non_finite = NonFinite::kStop});
  check_text("buckets.order: rank 0 has [], rank 1 has [2, 0, 1]", {},
             {.buckets = {.order = {2, 0, 1}}});
  check_text("buckets.bucket_bytes_cap: rank 0 has 8, rank 1 has 12",
             {.buckets = {.bucket_bytes_cap = 8}}, {.buckets = {.bucket_bytes_cap = 12}});
  check_text("buckets.first_bucket_bytes_cap: rank 0 has 8, rank 1 has 12",
             {.buckets = {.first_bucket_bytes_cap = 8}},
             {.buckets = {.first_bucket_bytes_cap = 12}});
  check_text("buckets.last_bucket_bytes_cap: rank 0 has 8, rank 1 has 12",
             {.buckets = {.last_bucket_bytes_cap = 8}}, {.buckets = {.last_bucket_bytes_cap = 12}});
  check_text("buckets.parts: rank 0 has 1, rank 1 has 2", {.buckets = {.parts = 1}},
             {.buckets = {.parts = 2}});
  check_text("buckets.min_buckets: rank 0 has 1, rank 1 has 2", {.buckets = {.min_buckets = 1}},
             {.buckets = {.min_buckets = 2}});
  check_text("gradient_kind: rank 0 has mean, rank 1 has sum", {},
             {.gradient_kind = GradientKind::kSum});
  check_text("unused: rank 0 has error, rank 1 has zero", {}, {.unused = UnusedParameters::kZero});
  check_text("unused: rank 0 has zero, rank 1 has static", {.unused = UnusedParameters::kZero},
             {.unused = UnusedParameters::kStatic});
  check_text("buffer_sync: rank 0 has on_demand, rank 1 has every_forward", {},
             {.buffer_sync = BufferSync::kEveryForward});
  check_text("buffer_sync: rank 0 has on_demand, rank 1 has never", {},
             {.buffer_sync = BufferSync::kNever});
  check_text("non_finite: rank 0 has ignore, rank 1 has skip", {},
             {.non_finite = NonFinite::kSkip});
  check_text("scan_gradients: rank 0 has false, rank 1 has true", {}, {.scan_gradients = true});
  float statistic = 0;
  check_text("buffer 0: rank 0 has no more buffers, rank 1 has 'mean' float32[1]", {},
             {.buffers = {{"mean", buffer_of(std::span(&statistic, 1))}}});
}

TEST_CASE("nominal samples of ranks are compared exactly", "[engine]") {
  const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
    Trainee trainee(group, {.nominal_samples = 1048576.0 + group.rank()});
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("nominal_samples: rank 0 has 1048576, rank 1 has 1048577"));
  }
  run_on_all_backends(1, [](ProcessGroup& group) {
    const double infinity = std::numeric_limits<double>::infinity();
    expect(!error_of([&] { Trainee trainee(group, {.nominal_samples = infinity}); }).empty(),
           "finite nominal samples");
    Trainee trainee(group, {});
    expect(!error_of([&] { trainee.step(1, {.samples = infinity}); }).empty(), "finite samples");
  });
}

TEST_CASE("numbers in messages do not depend on the program's locale", "[engine]") {
  const test::GroupingLocale locale;
  const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
    Trainee trainee(group, {.nominal_samples = 1048576.5 + group.rank()});
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::Contains("nominal_samples: rank 0 has 1048576.5, rank 1 has 1048577.5"));
  }
}
