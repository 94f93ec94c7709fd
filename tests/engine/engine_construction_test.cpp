// SPDX-License-Identifier: MIT
//
// Ranks that construct different engines, or use several in different orders.
#include <catch2/catch.hpp>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/engine.h"
#include "support/engine_trainee.h"
#include "support/grouping_locale.h"

using namespace ddp;
using test::error_of;
using test::errors_of_ranks;
using test::expect;
using test::mark_all;
using test::run_on_all_backends;
using Trainee = test::EngineTrainee;

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
