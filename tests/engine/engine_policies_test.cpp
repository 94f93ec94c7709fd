// SPDX-License-Identifier: MIT
//
// How the engine handles parameters without a gradient, ranks without data, gradients that are not
// finite, replicas that diverge, and decisions of all ranks.
#include <signal.h>
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/engine/signal_guard.h"
#include "support/engine.h"
#include "support/grouping_locale.h"
#include "support/ranks_of.h"
#include "support/stderr_capture.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::expect_gradients;
using test::mark_all;
using test::Model;
using test::run_on_all_backends;
using test::write_gradient;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Runs fn(group) on every rank, with each backend. Returns the error of each rank with each
// backend, or "" if there is none.
std::vector<std::string> errors_of_ranks(int world_size,
                                         const std::function<void(ProcessGroup&)>& fn) {
  std::vector<std::string> errors;
  for (const Backend backend : test::backends()) {
    std::vector<std::string> own(static_cast<std::size_t>(world_size));
    test::run_groups(backend, world_size, [&](ProcessGroup& group) {
      own[static_cast<std::size_t>(group.rank())] = error_of([&] { fn(group); });
    });
    errors.insert(errors.end(), own.begin(), own.end());
  }
  return errors;
}

// A model and its engine on one rank of a group that outlives them.
struct Trainee {
  Trainee(ProcessGroup& group, DdpOptions options)
      : model(0), ddp(group.shared_from_this(), model.parameters, std::move(options)) {}

  // One step in which all gradients are `value`.
  void step(double value, const StepOptions& options = {}) {
    const double factor = ddp.begin_step(options);
    for (std::size_t i = 0; i < ddp.parameter_count(); ++i) {
      write_gradient(ddp, i, factor * value);
    }
    mark_all(ddp);
    ddp.wait();
  }

  Model model;
  DistributedDataParallel ddp;
};

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

TEST_CASE("a gradient that is missing on one rank is an error on all, in the same step",
          "[engine][unused]") {
  const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    trainee.step(1);
    (void)trainee.ddp.begin_step();
    for (const std::size_t i : {2, 1, 0}) {
      if (group.rank() == 1 && i == 1) continue;
      trainee.ddp.mark_ready(i);
    }
    trainee.ddp.wait();
    expect(false, "an error before this");
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::Contains("[ddp] rank 1, step 2: backward gave no gradient for 'fc1.bias'"));
  }
}

TEST_CASE("unused parameters may count as zeros", "[engine][unused]") {
  for (const int world_size : {1, 2, 3, 4}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Trainee trainee(group, {.unused = UnusedParameters::kZero});
      DistributedDataParallel& ddp = trainee.ddp;
      trainee.step(7);  // leaves sevens in the buckets
      const bool is_first = group.rank() == 0;
      (void)ddp.begin_step();
      write_gradient(ddp, 0, 6);
      ddp.mark_ready(0);  // all ranks use 0, rank 0 uses 1, none uses 2
      if (is_first) {
        write_gradient(ddp, 1, 12);
        ddp.mark_ready(1);
      }
      ddp.wait();
      expect(ddp.gradient(0).as<double>()[0] == 6, "the mean of sixes");
      const double share = 12.0 / group.world_size();
      expect(std::abs(ddp.gradient(1).as<double>()[3] - share) < 1e-12, "others added zeros");
      expect(ddp.gradient(2).as<double>()[1] == 0, "nothing is left over");
      expect(ddp.is_used(0) && ddp.is_used(1) && !ddp.is_used(2), "the agreed use");
      trainee.step(3);
      expect_gradients(ddp, 3);
      expect(ddp.is_used(2), "used again");
    });
  }
}

TEST_CASE("a world of one writes no marks of used parameters into its bucket", "[engine][unused]") {
  for (const auto unused : {UnusedParameters::kZero, UnusedParameters::kStatic}) {
    run_on_all_backends(1, [&](ProcessGroup& group) {
      Trainee trainee(group, {.unused = unused});
      const BucketLayout& layout = trainee.ddp.layout();
      const Buffer last = trainee.ddp.gradient(layout.buckets.back().parameters.front());
      const std::span tail(static_cast<double*>(last.data) + layout.tail_offset, layout.tail_count);
      std::ranges::fill(tail, 7);
      for (int step = 0; step < 3; ++step) {
        trainee.step(1);
        expect(trainee.ddp.is_used(2), "known without the bucket");
      }
      expect(std::ranges::count(tail, 7) == 4, "one for each parameter and one more");
    });
  }
}

TEST_CASE("a parameter may be used in only some passes of a step", "[engine][unused]") {
  for (const int world_size : {1, 2}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      std::vector<double> value(5, 1.0);
      std::vector<double> own(5, 77.0);  // left from an earlier step
      std::vector<double> other(3, 1.0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(
          shared,
          {{"late", {5}, buffer_of(value), buffer_of(own)}, {"always", {3}, buffer_of(other)}},
          {.unused = UnusedParameters::kZero});
      for (const bool late_in_second : {true, false}) {
        ddp.accumulate(2);
        for (const bool is_second : {false, true}) {
          const double factor = ddp.begin_step({.samples = 1});
          std::ranges::fill(ddp.gradient(1).as<double>(), 1);
          ddp.mark_ready(1);
          if (is_second == late_in_second) {
            for (double& element : own) element = (is_second ? element : 0) + factor * 4;
            ddp.mark_ready(0);
          }
          ddp.wait();
        }
        expect(own[4] == 2, "the mean of 4 and nothing, not " + std::to_string(own[4]));
        expect(ddp.is_used(0), "used in one of two passes");
      }
    });
  }
}

TEST_CASE("a static graph learns which parameters are shared and unused", "[engine][unused]") {
  for (const int world_size : {1, 2, 3}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Trainee trainee(group,
                      {.buckets = {.bucket_bytes_cap = 64}, .unused = UnusedParameters::kStatic});
      DistributedDataParallel& ddp = trainee.ddp;
      for (int step = 0; step < 4; ++step) {
        // The last rank has no data in the first step, and learns in the second.
        const bool idle =
            step == 0 && group.world_size() > 1 && group.rank() == group.world_size() - 1;
        const double factor = ddp.begin_step({.samples = idle ? 0.0 : 1.0});
        if (!idle) {
          for (const int use : {1, 2}) {
            write_gradient(ddp, 2, factor * use);
            ddp.mark_ready(2);
          }
          write_gradient(ddp, 0, factor * 9);
          ddp.mark_ready(0);
        }
        ddp.wait();
        expect(ddp.gradient(2).as<double>()[0] == 2, "the value at the last use");
        expect(ddp.gradient(0).as<double>()[0] == 9, "a plain one");
        expect(ddp.gradient(1).as<double>()[0] == 0, "an unused one");
        expect(ddp.is_used(2) && !ddp.is_used(1), "the agreed use");
      }
    });
  }
}

TEST_CASE("a gradient that is marked twice is an error on all ranks", "[engine][unused]") {
  const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    trainee.step(1);
    (void)trainee.ddp.begin_step();
    if (group.rank() == 1) trainee.ddp.mark_ready(1);
    mark_all(trainee.ddp);
    trainee.ddp.wait();
    expect(false, "an error before this");
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("[ddp] rank 1, step 2: 'fc1.bias' was marked ready twice"));
  }
}

TEST_CASE("ranks may use different parameters in a static graph", "[engine][unused]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    std::vector<std::vector<double>> own = model.values;
    for (std::size_t i = 0; i < 3; ++i) model.parameters[i].grad = buffer_of(own[i]);
    DistributedDataParallel ddp(
        group.shared_from_this(), model.parameters,
        {.buckets = {.bucket_bytes_cap = 64}, .unused = UnusedParameters::kStatic});
    // Rank 0 uses 2 and 0, rank 1 uses 1 and 0. Rank 0 is idle while rank 1 learns.
    const std::size_t first = group.rank() == 0 ? 2 : 1;
    for (int step = 0; step < 40; ++step) {
      ddp.accumulate(step < 2 ? 1 : 2);
      for (int pass = step < 2 ? 1 : 0; pass < 2; ++pass) {
        const bool idle = step < 2 && group.rank() != step;
        const bool is_first = ddp.is_synchronized();
        const double factor = ddp.begin_step({.samples = idle ? 0.0 : 1.0});
        for (const std::size_t i : {first, std::size_t{0}}) {
          if (idle) continue;
          for (double& element : own[i]) element = (is_first ? 0 : element) + 4 * factor;
          ddp.mark_ready(i);
        }
        ddp.wait();
      }
      if (step < 2) continue;
      expect(own[0][7] == 4, "both use it");
      expect(own[1][5] == 2 && own[2][1] == 2, "one of two ranks uses it");
      for (std::size_t i = 0; i < 3; ++i) expect(ddp.is_used(i), "each is used by somebody");
    }
  });
}

TEST_CASE("a static graph that changes is an error that names the parameter", "[engine][unused]") {
  const auto learn = [](DistributedDataParallel& ddp) {
    (void)ddp.begin_step();
    for (const std::size_t i : {2, 2, 1}) ddp.mark_ready(i);
    ddp.wait();
    (void)ddp.begin_step();
  };
  const DdpOptions options{.unused = UnusedParameters::kStatic};
  const auto fewer = errors_of_ranks(2, [&](ProcessGroup& group) {
    Trainee trainee(group, options);
    learn(trainee.ddp);
    trainee.ddp.mark_ready(1);
    trainee.ddp.mark_ready(2);
    if (group.rank() == 1) trainee.ddp.mark_ready(2);
    trainee.ddp.wait();
  });
  for (const std::string& error : fewer) {
    CHECK_THAT(error, Catch::Contains("rank 0, step 2: backward gave fewer gradients than in the "
                                      "first step for 'fc2.weight'"));
  }
  run_on_all_backends(1, [&](ProcessGroup& group) {
    Trainee trainee(group, options);
    learn(trainee.ddp);
    expect(contains(error_of([&] { trainee.ddp.mark_ready(0); }), "'fc1.weight' was marked"),
           "a parameter that was unused");
    trainee.ddp.mark_ready(1);
    expect(contains(error_of([&] { trainee.ddp.mark_ready(1); }), "more often than in the first"),
           "a parameter that was used once");
  });
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

TEST_CASE("the summary of the last step stays valid while the next one is open",
          "[engine][uneven]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    trainee.step(1, {.samples = 0, .is_active = false});
    expect(trainee.ddp.is_over(), "nobody has data");
    // Rank 0 has data again: the next epoch's.
    (void)trainee.ddp.begin_step({.is_active = group.rank() == 0});
    expect(trainee.ddp.is_over(), "as of the last step");
    mark_all(trainee.ddp);
    trainee.ddp.wait();
    expect(!trainee.ddp.is_over(), "somebody has data");
    (void)trainee.ddp.begin_step({.is_active = false});
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
      mark_all(ddp);
      ddp.wait();
    }
    expect(!ddp.agreed(1, Quorum::kAll) && ddp.agreed(1, Quorum::kAny), "one of two");
    expect(ddp.stop_requested(), "asked for in the first pass");
    expect(ddp.summary().active_ranks == 2, "ranks, not passes");
  });
}

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
  SECTION("diverged replicas, which are still compared every so many steps from the first one") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Trainee trainee(group, {.fingerprint_every = 4});
      trainee.ddp.continue_after(kBefore + 3);
      for (int step = 0; step < 9; ++step) {
        if (step == 1 && group.rank() == 1) trainee.model.values[1][3] += 1;
        trainee.step(1);
      }
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, Catch::Contains("replicas have diverged: step 28: parameter 'fc1.bias'"));
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

TEST_CASE("replicas that diverge are an error that names them", "[engine][fingerprint]") {
  for (const int world_size : {2, 3, 4}) {
    std::vector<int> steps(static_cast<std::size_t>(world_size), 0);
    const auto errors = errors_of_ranks(world_size, [&](ProcessGroup& group) {
      Trainee trainee(group, {.fingerprint_every = 4});
      for (int step = 0; step < 20; ++step) {
        if (step == 6 && group.rank() == 1) {  // one bit
          trainee.model.values[1][3] = std::nextafter(trainee.model.values[1][3], 2.0);
        }
        trainee.step(1);
        ++steps[static_cast<std::size_t>(group.rank())];
      }
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, Catch::Contains("replicas have diverged: step 9: parameter 'fc1.bias' of "
                                        "rank 1"));
    }
    for (const int each : steps) CHECK(each == 8 * static_cast<int>(test::backends().size()));
  }
}

TEST_CASE("equal replicas cause no error", "[engine][fingerprint]") {
  for (const int world_size : {1, 3}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      std::vector<float> statistics(3, 1);
      Trainee trainee(
          group, {.buffers = {{"running_mean", buffer_of(statistics)}}, .fingerprint_every = 1});
      for (int step = 0; step < 5; ++step) {
        std::ranges::fill(statistics, static_cast<float>(group.rank() + step));  // differ by rank
        trainee.step(1);
        trainee.model.values[0][0] += trainee.ddp.gradient(0).as<double>()[0];
        if (step == 2) trainee.ddp.broadcast_buffers();
      }
    });
  }
}

TEST_CASE("a buffer that is not rank 0's after a broadcast is an error that names it",
          "[engine][fingerprint]") {
  const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
    std::vector<float> mean(3, 1);
    std::vector<float> variance(3, 2);
    const bool is_wrong = group.rank() == 1;  // its two buffers are one
    Trainee trainee(group, {.buffers = {{"mean", buffer_of(is_wrong ? variance : mean)},
                                        {"variance", buffer_of(variance)}}});
    trainee.step(1);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::Contains("replicas have diverged: step 1: buffer 'mean' of rank 1 (") &&
                   Catch::Contains("differs from that of rank 0"));
  }
}

TEST_CASE("buffers are sent on demand, at every forward, or never", "[engine][buffers]") {
  for (const BufferSync sync :
       {BufferSync::kOnDemand, BufferSync::kEveryForward, BufferSync::kNever}) {
    run_on_all_backends(2, [&](ProcessGroup& group) {
      std::vector<float> statistics(3, static_cast<float>(group.rank()));
      Trainee trainee(group,
                      {.buffers = {{"running_mean", buffer_of(statistics)}}, .buffer_sync = sync});
      expect(statistics[2] == 0, "rank 0's at construction");
      const auto own = static_cast<float>(10 + group.rank());
      const auto sent = [&](const std::function<void()>& call) {
        std::ranges::fill(statistics, own);
        call();
        return statistics[0] == 10;
      };
      const bool is_root = group.rank() == 0;
      expect(sent([&] { trainee.ddp.begin_forward(); }) ==
                 (is_root || sync == BufferSync::kEveryForward),
             "begin_forward");
      expect(
          sent([&] { trainee.ddp.broadcast_buffers(); }) == (is_root || sync != BufferSync::kNever),
          "broadcast_buffers");
    });
  }
}

TEST_CASE("buffers on different devices do not make models different", "[engine][buffers]") {
  const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
    std::vector<float> statistics(3);
    Buffer buffer = buffer_of(statistics);
    buffer.device = cuda_device(group.rank());  // the group refuses it
    Trainee trainee(group, {.buffers = {{"running_mean", buffer}}});
  });
  for (const std::string& error : errors) CHECK_FALSE(contains(error, "models differ"));
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

TEST_CASE("while a SignalGuard exists, a signal is recorded as a request", "[engine][signals]") {
  struct sigaction before = {};
  REQUIRE(::sigaction(SIGUSR1, nullptr, &before) == 0);
  {
    SignalGuard guard;
    CHECK_FALSE(error_of([] { SignalGuard second; }).empty());
    CHECK_FALSE(guard.stop_requested());
    CHECK_FALSE(guard.take_report_request());
    ::raise(SIGUSR2);
    CHECK(guard.take_report_request());
    CHECK_FALSE(guard.take_report_request());
    CHECK_FALSE(guard.stop_requested());
    ::raise(SIGUSR1);
    CHECK(guard.stop_requested());
  }
  struct sigaction after = {};
  REQUIRE(::sigaction(SIGUSR1, nullptr, &after) == 0);
  CHECK(before.sa_handler == after.sa_handler);
  SignalGuard again;
  CHECK_FALSE(again.stop_requested());
  ::raise(SIGTERM);
  CHECK(again.stop_requested());
}
