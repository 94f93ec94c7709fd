// SPDX-License-Identifier: MIT
//
// How the engine handles parameters without a gradient, and gradients that are marked twice.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/engine.h"
#include "support/engine_trainee.h"

using namespace ddp;
using test::contains;
using test::error_of;
using test::errors_of_ranks;
using test::expect;
using test::expect_gradients;
using test::mark_all;
using test::Model;
using test::run_on_all_backends;
using test::write_gradient;
using Trainee = test::EngineTrainee;

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

TEST_CASE("a static graph is learned from a pass that has samples", "[engine][unused]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Trainee trainee(group, {.unused = UnusedParameters::kStatic});
    const bool has_samples = group.rank() == 0;
    (void)trainee.ddp.begin_step({.samples = has_samples ? 1.0 : 0.0});
    trainee.ddp.mark_ready(2);
    if (has_samples) {
      for (const std::size_t i : {1, 0}) trainee.ddp.mark_ready(i);
    }
    trainee.ddp.wait();
    trainee.step(3);
    expect_gradients(trainee.ddp, 3);
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
    CHECK_THAT(error, Catch::Contains("rank 0, step 2: backward gave fewer gradients for "
                                      "'fc2.weight' than in the first pass"));
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
