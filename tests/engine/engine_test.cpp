// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "support/allocation_counter.h"
#include "support/engine.h"
#include "support/recording_group.h"
#include "support/stderr_capture.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::expect_gradients;
using test::mark_all;
using test::Model;
using test::RecordingGroup;
using test::run_groups;
using test::run_on_all_backends;
using test::write_gradient;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

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

// Alone each would cost a message: a minute for 100,000 parameters over gloo.
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

TEST_CASE("the recorder knows which buckets were ready, also of those that are not submitted yet",
          "[engine][recorder]") {
  using What = FlightRecorder::What;
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Model model(0);
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.buckets = {.bucket_bytes_cap = 8, .min_buckets = 3}});
    (void)ddp.begin_step();
    const auto told = [&] {
      std::string text;
      for (const FlightRecorder::Event& event : group.recorder().events()) {
        if (event.step != 1 || event.label == 0) continue;
        if (event.what == What::kReady) text += "ready ";
        if (event.what == What::kSubmitted) text += "submitted ";
      }
      return text;
    };
    ddp.mark_ready(1);
    expect(told() == "ready ", told());
    ddp.mark_ready(2);
    // The other bucket's is behind the control vector.
    expect(told() == "ready ready submitted submitted submitted ", told());
    ddp.mark_ready(0);
    ddp.wait();
  });
}

TEST_CASE("the recorder tells of buckets only in a pass that reduces them", "[engine][recorder]") {
  test::run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Model model(0);
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.buckets = {.bucket_bytes_cap = 8, .min_buckets = 3}});
    ddp.accumulate(2);
    for (const std::ptrdiff_t expected : {0, 3}) {
      (void)ddp.begin_step();
      mark_all(ddp);
      ddp.wait();
      const auto events = group.recorder().events();
      const auto ready =
          std::ranges::count(events, FlightRecorder::What::kReady, &FlightRecorder::Event::what);
      expect(ready == expected, std::to_string(ready));
    }
  });
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
    float loss = group.rank() == 0 ? 1.0F : 4.0F;
    const Buffer value = buffer_of(std::span(&loss, 1));
    ddp.record_metric(0, value, group.rank() == 0 ? 2 : 1);
    expect(!error_of([&] { ddp.record_metric(0, value, 1); }).empty(), "one value a slot");
    expect(!error_of([&] { ddp.record_metric(0, 1.0, 1); }).empty(), "of either kind");
    mark_all(ddp);
    ddp.wait();
    expect(ddp.summary().metrics[0].mean() == 2, "(2 * 1 + 1 * 4) / 3");
  });
}

TEST_CASE("a step can be left by an exception while a bucket is being reduced", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    std::vector<float> value(200003);
    const Parameter large = {"w", {200003}, buffer_of(value)};
    const auto shared = group.shared_from_this();
    {
      DistributedDataParallel ddp(shared, {large});
      (void)ddp.begin_step();
      ddp.mark_ready(0);
    }  // frees the bucket's memory
    group.barrier().wait();
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

TEST_CASE("a bucket is launched during backward, as soon as it is full and the next in order",
          "[engine]") {
  const auto group = std::make_shared<RecordingGroup>(2);
  Model model(0);
  DistributedDataParallel ddp(group, model.parameters,
                              {.buckets = {.bucket_bytes_cap = 100, .min_buckets = 2}});
  REQUIRE(ddp.layout().buckets.size() == 2);  // {fc2.weight, fc1.bias}, {fc1.weight}
  group->submitted.clear();
  (void)ddp.begin_step();
  const std::size_t first_bucket_size = ddp.layout().buckets[0].parameters.size();
  SECTION("in order") {
    for (std::size_t done = 0; done < first_bucket_size; ++done) ddp.mark_ready(2 - done);
    CHECK(group->submitted.size() == 2);  // the control vector and the first bucket
  }
  SECTION("a later bucket that is ready first waits for its turn") {
    for (const std::size_t i : ddp.layout().buckets[1].parameters) ddp.mark_ready(i);
    CHECK(group->submitted.empty());
    for (const std::size_t i : ddp.layout().buckets[0].parameters) ddp.mark_ready(i);
    REQUIRE(group->submitted.size() == 3);
    CHECK(group->submitted[1].input.data < group->submitted[2].input.data);
  }
}

TEST_CASE("without overlap nothing is launched before wait", "[engine]") {
  const auto group = std::make_shared<RecordingGroup>(2);
  Model model(0);
  DistributedDataParallel ddp(group, model.parameters, {.buckets = {.overlap = false}});
  group->submitted.clear();
  (void)ddp.begin_step();
  mark_all(ddp);
  CHECK(group->submitted.empty());
  ddp.wait();
  CHECK(group->submitted.size() == 1 + ddp.layout().buckets.size());
}

TEST_CASE("allowing unused parameters needs no additional collective", "[engine]") {
  for (const UnusedParameters unused : {UnusedParameters::kError, UnusedParameters::kZero}) {
    const auto group = std::make_shared<RecordingGroup>(2);
    Model model(0);
    DistributedDataParallel ddp(group, model.parameters, {.unused = unused});
    group->submitted.clear();
    (void)ddp.begin_step();
    mark_all(ddp);
    ddp.wait();
    CHECK(ddp.is_used(0));
    CHECK(group->submitted.size() == 1 + ddp.layout().buckets.size());  // the control vector
  }
}

TEST_CASE("a world of one submits nothing", "[engine]") {
  const auto group = std::make_shared<RecordingGroup>(1);
  Model model(0);
  DistributedDataParallel ddp(group, model.parameters);
  CHECK(ddp.begin_step({.samples = 17}) == 1);
  for (std::size_t i = 0; i < 3; ++i) write_gradient(ddp, i, 8);
  mark_all(ddp);
  ddp.wait();
  expect_gradients(ddp, 8);
  CHECK(group->submitted.empty());
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

TEST_CASE("the addresses of gradients never change and lie in the buckets", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters);
    const void* before = ddp.gradient(1).data;
    for (int step = 0; step < 3; ++step) {
      (void)ddp.begin_step();
      mark_all(ddp);
      ddp.wait();
    }
    expect(ddp.gradient(1).data == before, "the same address");
    expect(ddp.statistics().gradient_copies == 0, "no copies");
    expect(ddp.statistics().steps == 3, "three steps");
    expect(ddp.statistics().bucket_launches == 3 * ddp.layout().buckets.size(), "launches");
  });
}

// Over gloo, the Gloo library allocates in each operation.
TEST_CASE("a step over shm allocates no memory on any thread", "[engine]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Model model(0);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters, {.nominal_samples = 2});
    const auto step = [&](double samples) {
      (void)ddp.begin_step({.samples = samples});
      ddp.record_metric(0, 1.0, samples);
      mark_all(ddp);
      ddp.wait();
    };
    step(2);
    group.barrier().wait();
    const std::int64_t before = test::allocations();
    for (int i = 0; i < 20; ++i) step(1 + i % 3);
    group.barrier().wait();
    const std::int64_t asked = test::allocations() - before;
    group.barrier().wait();  // waits until the other rank has counted, too
    expect(asked == 0, std::to_string(asked) + " allocations in 20 steps of both ranks");
  });
}

TEST_CASE("callers may keep their gradients in their own memory", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    std::vector<double> own(7, 1.0 + group.rank());
    model.parameters[1].grad = buffer_of(own);
    const auto shared = group.shared_from_this();
    DistributedDataParallel ddp(shared, model.parameters);
    expect(ddp.gradient(1).data == own.data(), "the caller's memory");
    (void)ddp.begin_step();
    mark_all(ddp);
    ddp.wait();
    expect(own[6] == 1.5, "the mean, in the caller's memory");
    expect(ddp.statistics().gradient_copies == 2, "one copy in, one out");
  });
}

TEST_CASE("different models are an error on every rank that names the first difference",
          "[engine]") {
  run_on_all_backends(3, [](ProcessGroup& group) {
    Model model(0);
    if (group.rank() == 2) model.parameters[1].name = "fc1.bis";
    const auto shared = group.shared_from_this();
    const std::string error =
        error_of([&] { DistributedDataParallel ddp(shared, model.parameters); });
    expect(error ==
               "[ddp] models differ in parameter 1: rank 0 has 'fc1.bias' float64[7], rank 2 has "
               "'fc1.bis' float64[7]",
           error);
  });
}

TEST_CASE(
    "different models are an error on all ranks, even if rank 0 hosts the store and then ends",
    "[engine]") {
  std::promise<Endpoint> endpoint;
  const std::shared_future<Endpoint> address = endpoint.get_future();
  std::string errors[3];
  test::run_ranks(3, [&](int rank) {
    std::unique_ptr<TcpServer> server;
    if (rank == 0) {
      server = std::make_unique<TcpServer>(Endpoint{"127.0.0.1", 0});
      endpoint.set_value(server->endpoint());
    }
    const auto group = init_process_group({.backend = Backend::kShm,
                                           .device = DeviceChoice::kCpu,
                                           .rank = rank,
                                           .world_size = 3,
                                           .store = std::make_shared<TcpStore>(address.get()),
                                           .ranks_are_threads = true});
    Model model(0);
    if (rank == 2) model.parameters[1].name = "fc1.bis";
    errors[rank] = error_of([&] { DistributedDataParallel ddp(group, model.parameters); });
  });
  CHECK_THAT(errors[0], Catch::StartsWith("[ddp] models differ in parameter 1: "));
  CHECK(errors[1] == errors[0]);
  CHECK(errors[2] == errors[0]);
}

TEST_CASE("a parameter that a rank lacks is named", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    const std::string last = std::to_string(model.parameters.size() - 1);
    const std::string name = model.parameters.back().name;
    if (group.rank() == 1) model.parameters.pop_back();
    const auto shared = group.shared_from_this();
    const std::string error =
        error_of([&] { DistributedDataParallel ddp(shared, model.parameters); });
    expect(error.starts_with("[ddp] models differ in parameter " + last + ": rank 0 has '" + name +
                             "' ") &&
               error.ends_with(", rank 1 has no more parameters"),
           error);
  });
}

TEST_CASE("each comparison of models names its own difference", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    const auto shared = group.shared_from_this();
    for (const std::string name : {"first", "second", "third"}) {
      Model model(0);
      if (group.rank() == 1) model.parameters[0].name = name;
      const std::string error =
          error_of([&] { DistributedDataParallel ddp(shared, model.parameters); });
      expect(error.find("rank 1 has '" + name + "'") != std::string::npos, error);
    }
  });
}

TEST_CASE("numbers of samples are of any arithmetic type, without a cast", "[engine]") {
  const int usual = 4;
  const std::int64_t own = 3;
  const DdpOptions options{.nominal_samples = usual};
  const StepOptions step{.samples = own};
  CHECK(options.nominal_samples + step.samples == 7);
}

TEST_CASE("wrong calls are errors in the same step", "[engine]") {
  const auto group = std::make_shared<RecordingGroup>(2);
  Model model(0);
  DistributedDataParallel ddp(group, model.parameters);
  const std::string order = ": a step is begin_step, mark_ready for each gradient, wait";
  CHECK(error_of([&] { ddp.mark_ready(0); }) ==
        "[ddp] mark_ready was called before begin_step" + order);
  CHECK(error_of([&] { ddp.wait(); }) == "[ddp] wait was called before begin_step" + order);
  CHECK(
      error_of([&] { ddp.record_metric(0, 1, 1); }) ==
      "[ddp] record_metric was called before begin_step: call it between begin_step and the first "
      "mark_ready of a step");
  CHECK(error_of([&] { (void)ddp.gradient_scale(); }) ==
        "[ddp] gradient_scale was called before the first step" + order);
  (void)ddp.begin_step();
  CHECK(error_of([&] { (void)ddp.begin_step(); }) ==
        "[ddp] begin_step was called before wait" + order);
  CHECK(error_of([&] { ddp.mark_ready(7); }) ==
        "[ddp] mark_ready(7), but the model has 3 parameters, 0 to 2");
  CHECK(error_of([&] { (void)ddp.gradient(3); }) ==
        "[ddp] gradient(3), but the model has 3 parameters, 0 to 2");
  CHECK(error_of([&] { (void)ddp.is_used(3); }) ==
        "[ddp] is_used(3), but the model has 3 parameters, 0 to 2");
  ddp.mark_ready(2);
  CHECK(error_of([&] { ddp.mark_ready(2); }) ==
        "[ddp] rank 1, step 1: 'fc2.weight' was marked ready twice");
  CHECK(error_of([&] { ddp.record_metric(0, 1, 1); }).find("record_metric") != std::string::npos);
  ddp.mark_ready(0);
  CHECK(error_of([&] { ddp.wait(); }) ==
        "[ddp] rank 1, step 1: backward gave no gradient for 'fc1.bias'");
}

TEST_CASE("an optimizer that asks before wait() gets an error", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters, {.fold_scale = true});
    for (int step = 0; step < 2; ++step) {
      expect(ddp.is_synchronized(), "between steps");
      (void)ddp.begin_step();
      mark_all(ddp);
      expect(!ddp.is_synchronized(), "in a step");
      for (const std::string& error :
           {error_of([&] { (void)ddp.gradient_scale(); }),
            error_of([&] { (void)ddp.should_step(); }), error_of([&] { ddp.wait_host(); })}) {
        expect(error.find("was called before wait") != std::string::npos, error);
      }
      ddp.wait();
      ddp.wait_host();
      expect(ddp.should_step() && ddp.gradient_scale() != nullptr, "reduced");
    }
  });
}

TEST_CASE("the report gives the order to pass if the buckets' order costs overlap", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    for (const auto unused : {UnusedParameters::kError, UnusedParameters::kZero}) {
      Model model(0);
      DistributedDataParallel ddp(
          group.shared_from_this(), model.parameters,
          {.buckets = {.bucket_bytes_cap = 8, .min_buckets = 3}, .unused = unused});
      expect(ddp.report().find("order: ") == std::string::npos, "no order seen yet");
      const bool uses_all = unused == UnusedParameters::kError;
      (void)ddp.begin_step();
      for (const std::size_t i : {0, 1}) ddp.mark_ready(i);
      if (uses_all) ddp.mark_ready(2);
      ddp.wait();
      const std::string report = ddp.report();
      expect(report.find("order: 2 of 3 buckets were full") != std::string::npos, report);
      expect(report.find(".order = {0, 1, 2}\n") != std::string::npos, report);
    }
  });
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

TEST_CASE("a step without nominal_samples causes one warning, on rank 0", "[engine]") {
  const auto warnings = [](double nominal_samples, double samples) {
    test::StderrCapture capture;
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters, {.nominal_samples = nominal_samples});
      for (int step = 0; step < 2; ++step) {
        (void)ddp.begin_step({.samples = samples});
        mark_all(ddp);
        ddp.wait();
      }
    });
    return capture.text();
  };
  const std::string warning = warnings(0, 64);
  const std::string begin =
      "[ddp] a step has 64 samples and DdpOptions::nominal_samples is not set";
  CHECK_THAT(warning, Catch::Contains(begin));
  CHECK(warning.find(begin) == warning.rfind(begin));
  CHECK(warnings(0, 1).empty());
  CHECK(warnings(1, 64).empty());
}

TEST_CASE("a world of one is warned if it accumulates without nominal_samples", "[engine]") {
  const auto warnings = [](int passes) {
    test::StderrCapture capture;
    run_groups(Backend::kShm, 1, [&](ProcessGroup& group) {
      Model model(0);
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters);
      ddp.accumulate(passes);
      for (int pass = 0; pass < passes; ++pass) {
        CHECK(ddp.begin_step({.samples = 64}) == (passes == 1 ? 1 : 64));
        mark_all(ddp);
        ddp.wait();
      }
    });
    return capture.text();
  };
  CHECK(warnings(1).empty());
  CHECK_THAT(warnings(2), Catch::Contains("a step has 64 samples and DdpOptions::nominal_samples"));
}

TEST_CASE("a parameter that several layers share is given once", "[engine]") {
  const auto group = std::make_shared<RecordingGroup>(2);
  const auto refusal = [&](const Model& model) {
    return error_of([&] { DistributedDataParallel ddp(group, model.parameters); });
  };
  const std::string advice =
      "; give a parameter that several layers share once, and mark it ready after its last use";
  Model tied(0);
  tied.parameters[1].value = tied.parameters[0].value.slice(293, 7);
  CHECK(refusal(tied) ==
        "[ddp] the value of 'fc1.weight' and the value of 'fc1.bias' are in the same memory" +
            advice);
  Model one_gradient(0);
  std::vector<double> gradients(9);
  one_gradient.parameters[1].grad = buffer_of(std::span(gradients).first(7));
  one_gradient.parameters[2].grad = buffer_of(std::span(gradients).subspan(6, 2));
  CHECK(refusal(one_gradient) ==
        "[ddp] the gradient of 'fc1.bias' and the gradient of 'fc2.weight' are in the same memory" +
            advice);
  Model in_place(0);
  in_place.parameters[2].grad = in_place.parameters[2].value;
  CHECK_THAT(refusal(in_place), Catch::StartsWith("[ddp] the value of 'fc2.weight' and the "
                                                  "gradient of 'fc2.weight'"));
  CHECK(group->submitted.empty());
}

TEST_CASE("parameters are checked before anything is sent", "[engine]") {
  const auto group = std::make_shared<RecordingGroup>(2);
  Model model(0);
  CHECK_FALSE(error_of([&] { DistributedDataParallel ddp(group, {}); }).empty());
  model.parameters[0].shape = {299};
  CHECK(error_of([&] {
          DistributedDataParallel ddp(group, model.parameters);
        }).find("its shape has 299 elements") != std::string::npos);
  for (const std::int64_t extent : {std::int64_t{-1}, std::int64_t{1} << 32}) {
    model.parameters[0].shape = {extent, extent, 300};
    CHECK(error_of([&] {
            DistributedDataParallel ddp(group, model.parameters);
          }).find("its shape is [" + std::to_string(extent)) != std::string::npos);
  }
  model.parameters[0].shape = {30, 10};
  model.parameters[2].name = "fc1.weight";
  CHECK(error_of([&] { DistributedDataParallel ddp(group, model.parameters); }) ==
        "[ddp] two parameters have the name 'fc1.weight'");
  const ModelBuffer buffer{"mean", buffer_of(model.values[0])};
  CHECK(error_of([&] {
          DistributedDataParallel ddp(group, Model(0).parameters, {.buffers = {buffer, buffer}});
        }) == "[ddp] two buffers have the name 'mean'");
  CHECK(error_of([&] { DistributedDataParallel ddp(nullptr, Model(0).parameters); }) ==
        "[ddp] DistributedDataParallel needs a process group, but got a null pointer");
  CHECK(group->submitted.empty());
}
