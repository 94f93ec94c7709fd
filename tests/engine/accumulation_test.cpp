// SPDX-License-Identifier: MIT
//
// Steps of several backward passes.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "support/engine.h"
#include "support/recording_group.h"
#include "support/stderr_capture.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::expect_gradients;
using test::mark_all;
using test::Model;
using test::run_groups;
using test::run_on_all_backends;

namespace {

// One backward pass as a caller makes it: the first pass of a step overwrites the gradients, later
// ones add to them.
void pass(DistributedDataParallel& ddp, double samples, double mean_gradient) {
  const bool is_first = ddp.is_synchronized();
  const double factor = ddp.begin_step({.samples = samples});
  ddp.record_metric(0, mean_gradient, samples);
  for (std::size_t i = 0; samples > 0 && i < ddp.parameter_count(); ++i) {
    for (double& value : ddp.gradient(i).as<double>()) {
      value = (is_first ? 0 : value) + factor * mean_gradient;
    }
  }
  if (samples > 0) mark_all(ddp);
  ddp.wait();
}

}  // namespace

TEST_CASE("several passes over unequal micro-batches make one step", "[engine][accumulation]") {
  for (const int world_size : {1, 2, 3, 4}) {
    for (const bool own_memory : {false, true}) {
      run_on_all_backends(world_size, [&](ProcessGroup& group) {
        Model model(0);
        std::vector<std::vector<double>> own = model.values;
        for (std::size_t i = 0; own_memory && i < 3; ++i) {
          model.parameters[i].grad = buffer_of(own[i]);
        }
        const auto shared = group.shared_from_this();
        DistributedDataParallel ddp(shared, model.parameters, {.nominal_samples = 4});
        const std::size_t buckets = ddp.layout().buckets.size();
        for (const std::vector<double>& batches :
             {std::vector<double>{3, 1, 4}, {0, 5}, {2, 0}, {0, 0}, {7}}) {
          double sum = 0;
          double samples = 0;
          ddp.accumulate(static_cast<int>(batches.size()));
          const std::uint64_t launches = ddp.statistics().bucket_launches;
          for (std::size_t p = 0; p < batches.size(); ++p) {
            for (int rank = 0; rank < world_size; ++rank) {
              const double n = batches[p] == 0 ? 0 : batches[p] + rank;
              sum += n * static_cast<double>(10 * rank) + n * static_cast<double>(p);
              samples += n;
            }
            const double n = batches[p] == 0 ? 0 : batches[p] + group.rank();
            pass(ddp, n, 10.0 * group.rank() + static_cast<double>(p));
            expect(ddp.is_synchronized() == (p + 1 == batches.size()), "the last pass reduces");
          }
          expect_gradients(ddp, samples == 0 ? 0 : sum / samples);
          expect(ddp.summary().samples == samples, "samples of all passes");
          expect(std::abs(ddp.summary().metrics[0].sum - sum) < 1e-9, "metrics of all passes");
          expect(ddp.statistics().bucket_launches - launches == (world_size > 1 ? buckets : 0),
                 "one all_reduce for each bucket");
        }
        expect(ddp.statistics().steps == 5 && ddp.statistics().passes == 10, "counted");
      });
    }
  }
}

TEST_CASE("a no_sync() guard may outlive its engine", "[engine][accumulation]") {
  const auto group = std::make_shared<test::RecordingGroup>(2);
  Model model(0);
  std::optional<DistributedDataParallel> ddp(std::in_place, group, model.parameters);
  const DistributedDataParallel::NoSync first = ddp->no_sync();
  DistributedDataParallel::NoSync moved = ddp->no_sync();
  const DistributedDataParallel::NoSync second = std::move(moved);
  ddp.reset();
}

// By what the group receives, not by the engine's own count.
TEST_CASE("each bucket is reduced once in a step, whatever its number of passes",
          "[engine][accumulation]") {
  const bool is_guarded = GENERATE(false, true);
  const auto group = std::make_shared<test::RecordingGroup>(2);
  Model model(0);
  DistributedDataParallel ddp(group, model.parameters,
                              {.buckets = {.bucket_bytes_cap = 64, .min_buckets = 3}});
  const std::size_t buckets = ddp.layout().buckets.size();
  REQUIRE(buckets > 1);
  for (const int passes : {1, 4, 3}) {
    CAPTURE(is_guarded, passes);
    group->submitted.clear();
    if (!is_guarded) ddp.accumulate(passes);
    {
      std::optional<DistributedDataParallel::NoSync> guard;
      if (is_guarded && passes > 1) guard.emplace(ddp.no_sync());
      for (int i = 0; i + 1 < passes; ++i) pass(ddp, 1, 2);
    }
    CHECK(group->submitted.empty());
    pass(ddp, 1, 2);
    REQUIRE(group->submitted.size() == 1 + buckets);  // the control vector
    std::set<const void*> reduced;
    for (const Collective& each : group->submitted) {
      CHECK(each.kind == CollectiveKind::kAllReduce);
      reduced.insert(each.input.data);
    }
    CHECK(reduced.size() == 1 + buckets);
    for (const BucketSpec& bucket : ddp.layout().buckets) {
      const std::size_t first = *std::ranges::min_element(
          bucket.parameters, {}, [&](std::size_t i) { return ddp.gradient(i).data; });
      CHECK(reduced.count(ddp.gradient(first).data) == 1);
    }
  }
}

TEST_CASE("a real group runs one all_reduce for each bucket and step, too",
          "[engine][accumulation]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.buckets = {.bucket_bytes_cap = 64, .min_buckets = 3}});
    const auto collectives = [&] { return group.recorder().position().collectives; };
    for (const int passes : {1, 4, 3}) {
      const std::uint64_t before = collectives();
      ddp.accumulate(passes);
      for (int i = 0; i + 1 < passes; ++i) pass(ddp, 1, 2);
      expect(collectives() == before, "nothing before the last pass");
      pass(ddp, 1, 2);
      expect(collectives() - before == 1 + ddp.layout().buckets.size(),
             "the control vector and each bucket");
    }
  });
}

TEST_CASE("an optimizer step before the last pass is an error", "[engine][accumulation]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters, {.fold_scale = true});
    expect(!error_of([&] { ddp.accumulate(0); }).empty(), "no pass at all");
    {
      const auto guard = ddp.no_sync();
      pass(ddp, 1, 2);
    }
    for (const std::string& error : {error_of([&] { (void)ddp.gradient_scale(); }),
                                     error_of([&] { (void)ddp.should_step(); })}) {
      expect(error.find("no_sync") != std::string::npos, "the reason is named, not " + error);
    }
    expect(!error_of([&] { ddp.accumulate(2); }).empty(), "in the middle of a step");
    pass(ddp, 1, 4);
    expect(ddp.gradient_scale() != nullptr, "now it may");
    expect_gradients(ddp, 3 / *ddp.gradient_scale());
    ddp.accumulate(2);
    pass(ddp, 1, 2);
    expect(!ddp.should_step(), "a pass is announced that will reduce");
    pass(ddp, 1, 4);
    expect(ddp.should_step(), "it has");
  });
}

TEST_CASE("ranks that accumulate different numbers of passes get an error",
          "[engine][accumulation]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters);
    ddp.accumulate(group.rank() + 1);
    const std::string error = error_of([&] {
      for (int i = 0; i <= group.rank(); ++i) pass(ddp, 1, 1);
    });
    expect(error.find("passes of a step: rank 0 made 1, rank 1 made 2") != std::string::npos,
           error);
  });
}

TEST_CASE("different numbers of passes are found even if one rank makes the average number",
          "[engine][accumulation]") {
  const auto [world_size, expected] = GENERATE(
      std::pair(3, std::string("rank 0 made 1, rank 1 made 2, rank 2 made 3")),
      std::pair(8, std::string("rank 0 made 1, rank 1 made 2, rank 2 made 3, rank 3 made 4, rank 4 "
                               "made 5, and 3 more ranks differ")));
  std::vector<std::string> errors(static_cast<std::size_t>(world_size));
  run_groups(Backend::kShm, world_size, [&](ProcessGroup& group) {
    Model model(0);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters);
    ddp.accumulate(group.rank() + 1);
    errors[static_cast<std::size_t>(group.rank())] = error_of([&] {
      for (int i = 0; i <= group.rank(); ++i) pass(ddp, 1, 1);
    });
  });
  for (const std::string& error : errors) CHECK_THAT(error, Catch::EndsWith(expected));
}

TEST_CASE("what ranks exchange belongs to one step, even if the step has several passes",
          "[engine][accumulation]") {
  for (const int world_size : {1, 2}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters);
      for (int step = 0; step < 4; ++step) {
        const bool has_batch = step < 2;
        ddp.accumulate(2);
        for (int i = 0; i < 2; ++i) {
          (void)ddp.begin_step({.samples = has_batch ? 1.0 : 0.0,
                                .is_active = has_batch,
                                .asks_to_stop = step == 0});
          ddp.vote(1, step == 1);
          mark_all(ddp);
          ddp.wait();
        }
        const int ranks = group.world_size();
        expect(ddp.summary().active_ranks == (has_batch ? ranks : 0), "the active ranks");
        expect(ddp.is_over() == !has_batch, "over when nobody has data");
        expect(ddp.stop_requested() == (step == 0), "a stop request of this step");
        expect(ddp.summary().votes[1] == (step == 1 ? ranks : 0), "votes of this step");
      }
    });
  }
}

TEST_CASE("a rank whose data run out between the passes of a step is active in it",
          "[engine][accumulation]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters);
    ddp.accumulate(2);
    for (const bool has_batch : {true, false}) {
      (void)ddp.begin_step({.samples = has_batch ? 1.0 : 0.0, .is_active = has_batch});
      mark_all(ddp);
      ddp.wait();
    }
    expect(ddp.summary().active_ranks == 2, "both ranks were");
    expect(!ddp.is_over(), "not before a step without data");
  });
}

TEST_CASE("a metric that is NaN in a pass without samples is left out", "[engine][accumulation]") {
  for (const int world_size : {1, 2}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Model model(0);
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters);
      ddp.accumulate(2);
      pass(ddp, 0, std::numeric_limits<double>::quiet_NaN());
      pass(ddp, 1, 3);
      expect(ddp.summary().metrics[0].mean() == 3, "the mean over what has samples");
    });
  }
}

TEST_CASE("a held pass that writes nothing keeps the gradients in the caller's memory",
          "[engine][accumulation]") {
  for (const int world_size : {1, 2}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Model model(0);
      std::vector<std::vector<double>> own = model.values;
      for (std::size_t i = 0; i < 3; ++i) model.parameters[i].grad = buffer_of(own[i]);
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters);
      {
        const auto guard = ddp.no_sync();
        pass(ddp, 1, 2 + group.rank());
        pass(ddp, 0, 0);
      }
      pass(ddp, 1, 4 + group.rank());
      expect_gradients(ddp, group.world_size() == 1 ? 3 : 3.5);
    });
  }
}

TEST_CASE("an error between two passes is not followed by a warning that they were never reduced",
          "[engine][accumulation]") {
  const test::StderrCapture captured;
  run_on_all_backends(2, [](ProcessGroup& group) {
    const std::string error = error_of([&] {
      Model model(0);
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters);
      ddp.accumulate(3);
      pass(ddp, 1, 2);
      throw std::runtime_error("the disk is full");
    });
    expect(error == "the disk is full", error);
  });
  CHECK_THAT(captured.text(), !Catch::Contains("never reduced"));
}
