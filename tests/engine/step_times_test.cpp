// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/engine/statistics/step_recorder.h"
#include "support/engine.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::expect_gradients;
using test::mark_all;
using test::Model;
using test::run_groups;

TEST_CASE("a recorded step tells when its parts happened, in their order", "[engine]") {
  for (const int world_size : {1, 2}) {
    run_groups(Backend::kShm, world_size, [](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel silent(shared, model.parameters);
      expect(!error_of([&] { (void)silent.times(); }).empty(), "not asked to record");
      DistributedDataParallel ddp(shared, model.parameters, {.record_times = true});
      for (int step = 0; step < 2; ++step) {
        (void)ddp.begin_step();
        mark_all(ddp);
        ddp.wait();
        const StepTimes times = ddp.times();
        Clock::time_point last = times.begin;
        for (const StepTimes::Bucket& bucket : times.buckets) {
          expect(bucket.size_bytes > 0 && bucket.ready >= last, "buckets become ready in turn");
          last = bucket.ready;
          expect(bucket.reduction.has_value() == (group.world_size() > 1), "reduced with peers");
          if (!bucket.reduction) continue;
          expect(bucket.reduction->begin >= bucket.ready, "reduced after it was ready");
          expect(bucket.reduction->end > bucket.reduction->begin, "which takes time");
          expect(bucket.reduction->end <= times.end, "and ends within the step");
        }
        expect(times.backward_end >= last && times.end >= times.backward_end, "the end");
      }
    });
  }
}

// On CUDA they are asked for three steps late.
TEST_CASE("the recorder knows the reductions of the last steps", "[engine]") {
  constexpr std::size_t kSteps = 2 * StepRecorder::kKeptSteps;
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    const std::vector<GradientSpec> gradients(2, {1, DType::kFloat32});
    const BucketLayout layout = lay_out_buckets(gradients, {.bucket_bytes_cap = 4});
    expect(layout.buckets.size() == 2, "a bucket for each gradient");
    StepRecorder recorder(group, layout);
    std::vector<float> values(1);
    std::vector<double> sums;  // by step
    for (std::size_t step = 0; step < kSteps; ++step) {
      if (step % 2 == 1) recorder.begin();  // of a pass that does not reduce
      recorder.begin();
      std::chrono::duration<double> sum{};
      for (const std::size_t bucket : {0, 1}) {
        const Work work = group.all_reduce(buffer_of(values));
        recorder.launched(bucket, work);
        work.wait();
        const Interval ran = work.interval().value();
        sum += ran.end - ran.begin;
      }
      sums.push_back(sum.count());
      for (std::size_t ago = 0; ago < StepRecorder::kKeptSteps; ++ago) {
        const double expected = ago <= step ? sums[step - ago] : 0;
        expect(recorder.reduction_seconds(ago) == expected, "of the step so many steps ago");
      }
    }
  });
}

TEST_CASE("every reduction of many buckets has its time", "[engine]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    const auto times_with = [&](std::size_t buckets) {
      std::vector<float> values(buckets);
      std::vector<Parameter> parameters;
      for (float& value : values) {
        parameters.push_back(
            {"p" + std::to_string(parameters.size()), {1}, buffer_of(std::span(&value, 1))});
      }
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, parameters,
                                  {.buckets = {.min_buckets = buckets}, .record_times = true});
      (void)ddp.begin_step();
      mark_all(ddp);
      ddp.wait();
      return ddp.times();
    };
    const StepTimes times = times_with(600);
    expect(times.buckets.size() == 600, "a bucket for each parameter");
    for (const StepTimes::Bucket& bucket : times.buckets) {
      expect(bucket.reduction.has_value(), "none has been forgotten");
    }
    const std::string error = error_of([&] { (void)times_with(1024); });
    expect(error.find("record_times can time 1023 buckets, but the model has 1024: raise "
                      "buckets.bucket_bytes_cap") != std::string::npos,
           error);
  });
}
