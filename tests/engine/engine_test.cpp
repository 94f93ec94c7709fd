// SPDX-License-Identifier: MIT
//
// What a step of the engine gives: rank 0's values at the start, means of gradients, and a summary.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "support/engine.h"
#include "support/recording_group.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::expect_gradients;
using test::mark_all;
using test::Model;
using test::RecordingGroup;
using test::run_on_all_backends;
using test::write_gradient;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The mean of gradients of 40000 in float16, whose sum float16 cannot hold.
double mean_of_large(ProcessGroup& group, double nominal_samples) {
  std::vector<std::uint16_t> memory(3);
  const Buffer value{memory.data(), memory.size(), DType::kFloat16, kCpuDevice};
  DistributedDataParallel ddp(group.shared_from_this(), {{"w", {3}, value}},
                              {.nominal_samples = nominal_samples});
  const double factor = ddp.begin_step({.samples = 4});
  fill(ddp.gradient(0), 40000 * factor);
  ddp.mark_ready(0);
  ddp.wait();
  return item(ddp.gradient(0).slice(0, 1));
}

}  // namespace

TEST_CASE("rank 0's values reach every rank at construction", "[engine]") {
  run_on_all_backends(3, [](ProcessGroup& group) {
    Model model(group.rank() + 5);
    std::vector<float> statistics(4, static_cast<float>(group.rank()));
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters,
                                {.buffers = {{"running_mean", buffer_of(statistics)}}});
    for (const auto& value : model.values) {
      for (const double element : value) expect(element == 5, "rank 0's value");
    }
    expect(statistics[3] == 0, "rank 0's buffer");
    std::ranges::fill(statistics, static_cast<float>(group.rank() + 7));
    ddp.broadcast_buffers();
    expect(statistics[3] == 7, "rank 0's buffer again");
    (void)ddp.begin_step();
    expect(!error_of([&] { ddp.broadcast_buffers(); }).empty(), "not within a step");
    mark_all(ddp);
    ddp.wait();
  });
}

// Alone each would cost a message: a minute for 100,000 parameters over tcp.
TEST_CASE("the values of a thousand small parameters travel together", "[engine]") {
  for (const int world_size : {2, 3}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      const auto rank = static_cast<float>(group.rank());
      std::vector<std::vector<float>> values;
      std::vector<Parameter> parameters;
      std::size_t size_bytes = 0;
      for (std::size_t i = 0; i < 1000; ++i) {
        values.emplace_back(i % 100 == 50 ? 20'000 : i, rank + static_cast<float>(i));
        size_bytes += values.back().size() * sizeof(float);
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        parameters.push_back({"p" + std::to_string(i),
                              {static_cast<std::int64_t>(values[i].size())},
                              buffer_of(values[i])});
      }
      std::vector<std::int64_t> counts(7, group.rank());
      std::vector<std::uint8_t> flags(3, static_cast<std::uint8_t>(group.rank()));
      const auto shared = group.shared_from_this();
      const std::uint64_t before = group.recorder().position().collectives;
      DistributedDataParallel ddp(
          shared, parameters,
          {.buffers = {{"counts", buffer_of(counts)}, {"flags", buffer_of(flags)}}});
      const std::uint64_t operations = group.recorder().position().collectives - before;
      expect(operations < 20 + size_bytes / 1'000'000, std::to_string(operations) + " operations");
      for (std::size_t i = 0; i < values.size(); ++i) {
        for (const float value : values[i]) expect(value == static_cast<float>(i), "rank 0's");
      }
      std::ranges::fill(flags, static_cast<std::uint8_t>(group.rank() + 4));
      ddp.broadcast_buffers();
      expect(counts[6] == 0 && flags[2] == 4, "rank 0's buffers");
    });
  }
}

TEST_CASE("gradients become the mean weighted by samples", "[engine]") {
  for (const int world_size : {1, 2, 3, 4}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters, {.nominal_samples = 4});
      for (int step = 1; step <= 3; ++step) {
        double sum = 0;
        double samples = 0;
        for (int rank = 0; rank < group.world_size(); ++rank) {
          sum += (rank + step) * (10.0 + rank);
          samples += rank + step;
        }
        const double n = group.rank() + step;
        const double factor = ddp.begin_step({.samples = n});
        ddp.record_metric(2, 10.0 + group.rank(), n);
        for (std::size_t i = 0; i < 3; ++i) write_gradient(ddp, i, factor * (10 + group.rank()));
        mark_all(ddp);
        ddp.wait();
        expect_gradients(ddp, sum / samples);
        const StepSummary summary = ddp.summary();
        expect(summary.samples == samples, "all samples counted");
        expect(std::abs(summary.metrics[2].mean() - sum / samples) < 1e-12, "the metric's mean");
      }
    });
  }
}

TEST_CASE("the summary is the last finished step's, also while the next one is open", "[engine]") {
  for (const int world_size : {1, 2}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters);
      expect(ddp.summary().samples == 0, "nothing before the first step");
      (void)ddp.begin_step({.samples = 3});
      ddp.record_metric(0, 5, 3);
      ddp.record_metric(1, kNan, 0);  // the mean over no samples
      mark_all(ddp);
      ddp.wait();
      (void)ddp.begin_step({.samples = 1});
      const StepSummary summary = ddp.summary();
      expect(summary.samples == 3 * group.world_size(), "the last step's samples");
      expect(summary.metrics[0].mean() == 5, "the last step's metric");
      expect(summary.metrics[1].mean() == 0, "no NaN from a weight of 0");
      mark_all(ddp);
      ddp.wait();
    });
  }
}

TEST_CASE("totals add up the steps since they were taken last", "[engine]") {
  for (const int world_size : {1, 2}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters);
      for (const int steps : {3, 40}) {  // more than are kept
        for (int step = 1; step <= steps; ++step) {
          (void)ddp.begin_step({.samples = 2});
          ddp.record_metric(0, step, 2);
          mark_all(ddp);
          ddp.wait();
        }
        const StepSummary totals = ddp.take_totals();
        expect(totals.samples == 2 * steps * group.world_size(), "all samples");
        expect(totals.metrics[0].mean() == (1 + steps) / 2.0, "the mean over steps");
        expect(ddp.summary().metrics[0].mean() == steps, "the last step is still known");
        expect(ddp.take_totals().samples == 0, "they are taken");
      }
    });
  }
}

TEST_CASE("a metric may be one element of memory", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters);
    (void)ddp.begin_step();
    const Buffer nothing{nullptr, 1, DType::kFloat32, kCpuDevice};
    expect(!error_of([&] { ddp.record_metric(0, nothing, 1); }).empty(), "memory is needed");
    float loss = group.rank() == 0 ? 1.0F : 4.0F;
    const Buffer value = buffer_of(std::span(&loss, 1));
    ddp.record_metric(0, value, group.rank() == 0 ? 2 : 1);
    expect(!error_of([&] { ddp.record_metric(0, value, 1); }).empty(), "one value a slot");
    expect(!error_of([&] { ddp.record_metric(0, 1.0, 1); }).empty(), "of either kind");
    ddp.record_metric(1, Buffer{}, 0);  // the loss of an empty batch
    mark_all(ddp);
    ddp.wait();
    expect(ddp.summary().metrics[0].mean() == 2, "(2 * 1 + 1 * 4) / 3");
  });
}

TEST_CASE("a mean of float16 does not overflow, since sums are divided before they are rounded",
          "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    const double mean = mean_of_large(group, 4);
    expect(mean == 40000, std::to_string(mean));
  });
}

TEST_CASE("with the samples of all ranks as nominal_samples, the sum of a host does not overflow",
          "[engine]") {
  test::run_groups(Backend::kShmTcp, 4, [](ProcessGroup& group) {
    expect(std::isinf(mean_of_large(group, 4)), "the sum of a host is rounded");
    const double mean = mean_of_large(group, 16);
    expect(mean == 40000, std::to_string(mean));
  });
}

TEST_CASE("sums of gradients become the same means, without a factor", "[engine]") {
  for (const int world_size : {1, 2, 3}) {
    for (const bool fold_scale : {false, true}) {
      run_on_all_backends(world_size, [&](ProcessGroup& group) {
        Model model(0);
        const auto shared = group.shared_from_this();
        DistributedDataParallel ddp(
            shared, model.parameters,
            {.gradient_kind = GradientKind::kSum, .fold_scale = fold_scale});
        double sum = 0;
        double samples = 0;
        for (int rank = 0; rank < group.world_size(); ++rank) {
          sum += (rank + 3) * (10.0 + rank);
          samples += rank + 3;
        }
        const double n = group.rank() + 3;
        expect(ddp.begin_step({.samples = n}) == 1, "no factor");
        for (std::size_t i = 0; i < 3; ++i) write_gradient(ddp, i, n * (10 + group.rank()));
        mark_all(ddp);
        ddp.wait();
        expect((ddp.gradient_scale() != nullptr) == fold_scale, "a scale to fold");
        expect_gradients(ddp, sum / (fold_scale ? samples * *ddp.gradient_scale() : samples));
      });
    }
  }
}

TEST_CASE("the engine can apply the factor itself", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters,
                                {.nominal_samples = 2, .scale_at_ready = true});
    for (const double own : {3.0, 0.0, 2.0}) {
      const double n = group.rank() == 0 ? 1.0 : own;
      expect(ddp.begin_step({.samples = n}) == 1, "no factor for the caller");
      for (std::size_t i = 0; i < 3; ++i) write_gradient(ddp, i, 10 + group.rank());
      mark_all(ddp);
      ddp.wait();
      expect_gradients(ddp, (10 + own * 11) / (1 + own));
    }
  });
}

TEST_CASE("nominal batches have the factor 1", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters, {.nominal_samples = 32});
    expect(ddp.begin_step({.samples = 32}) == 1, "factor 1");
    mark_all(ddp);
    ddp.wait();
  });
}

TEST_CASE("a rank without samples adds zeros, even if its gradients are NaN", "[engine]") {
  for (const bool runs_backward : {false, true}) {
    run_on_all_backends(2, [&](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters);
      const bool idle = group.rank() == 1;
      const double factor = ddp.begin_step({.samples = idle ? 0.0 : 2.0});
      expect(factor == (idle ? 0 : 2), "n / n_ref");
      for (std::size_t i = 0; i < 3; ++i) write_gradient(ddp, i, idle ? kNan : factor * 3);
      if (!idle || runs_backward) mark_all(ddp);
      ddp.wait();
      expect_gradients(ddp, 3);
    });
  }
}

TEST_CASE("a step in which nobody has samples gives zero gradients", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters);
    (void)ddp.begin_step({.samples = 0});
    ddp.wait();
    expect_gradients(ddp, 0);
  });
}

TEST_CASE("a world of one without samples has zero gradients", "[engine]") {
  const auto group = std::make_shared<RecordingGroup>(1);
  Model model(0);
  DistributedDataParallel ddp(group, model.parameters);
  (void)ddp.begin_step({.samples = 0});
  for (std::size_t i = 0; i < 3; ++i) write_gradient(ddp, i, kNan);
  mark_all(ddp);
  ddp.wait();
  expect_gradients(ddp, 0);
}

TEST_CASE("numbers of samples are of any arithmetic type, without a cast", "[engine]") {
  const int usual = 4;
  const std::int64_t own = 3;
  const DdpOptions options{.nominal_samples = usual};
  const StepOptions step{.samples = own};
  CHECK(options.nominal_samples + step.samples == 7);
}

TEST_CASE("the report says how many steps it does not count", "[engine]") {
  for (const int world_size : {1, 2}) {
    run_on_all_backends(world_size, [&](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters);
      for (int step = 0; step < 12; ++step) {
        (void)ddp.begin_step();
        mark_all(ddp);
        ddp.wait();
      }
      const StepCosts costs = ddp.step_costs();
      const std::uint64_t rest = 12 - costs.steps - costs.pauses - costs.stalls.steps;
      const std::string line =
          "not counted: " + std::to_string(rest) + " of 12 steps: the first ones, which warm up" +
          (world_size == 1 ? "\n" : ", and the last ones, whose times ranks have ");
      expect(ddp.report().find(line) != std::string::npos, line + " is not in " + ddp.report());
    });
  }
}
