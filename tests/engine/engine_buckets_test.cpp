// SPDX-License-Identifier: MIT
//
// What the engine does with buckets in a step: when it launches them, where gradients lie, what a
// step allocates, and what the recorder and the report tell of buckets.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "support/allocation_counter.h"
#include "support/engine.h"
#include "support/gate.h"
#include "support/recording_group.h"

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

TEST_CASE("a rank that leaves a step for which the others are late breaks the group", "[engine]") {
  for (const bool throws : {false, true}) {
    run_on_all_backends(2, [&](ProcessGroup& group) {
      std::vector<float> value(200003);
      const auto step = [&] {
        DistributedDataParallel ddp(group.shared_from_this(), {{"w", {200003}, buffer_of(value)}});
        (void)ddp.begin_step();
        const Deadline end = Deadline::after(std::chrono::seconds(60));
        while (group.rank() == 0 && !end.passed()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          group.check_unbroken();
        }
        ddp.mark_ready(0);
        if (throws) throw std::runtime_error("on purpose");
      };
      const std::string first = error_of(step);
      const std::string later = error_of([&] { group.barrier().wait(); });
      const std::string& text = group.rank() == 0 ? first : later;
      const std::string reason =
          throws ? "an exception left all_reduce #" : "it freed memory during";
      expect(text.find("] rank 1 aborted: " + reason) != text.npos, text);
    });
  }
}

TEST_CASE("a step after one that another rank broke has that rank's error, too", "[engine]") {
  for (const Backend backend : test::backends()) {
    test::Gate begun;
    run_groups(backend, 2, [&](ProcessGroup& group) {
      Model model(0);
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters);
      if (group.rank() == 1) {
        expect(begun.wait_for(1), "rank 0's step");
        return group.abort("the disk is full");
      }
      (void)ddp.begin_step();
      begun.raise();
      const std::string first = error_of([&] {
        mark_all(ddp);
        ddp.wait();
      });
      expect(first.find("rank 1 aborted: the disk is full") != std::string::npos, first);
      expect(error_of([&] { (void)ddp.begin_step(); }) == first, "the same error");
    });
  }
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

TEST_CASE("on the CPU the collectives divide, except where marks travel behind gradients",
          "[engine]") {
  const auto divided_buckets = [](const DdpOptions& options) {
    const auto group = std::make_shared<RecordingGroup>(2);
    Model model(0);
    DistributedDataParallel ddp(group, model.parameters, options);
    group->submitted.clear();
    (void)ddp.begin_step({.samples = 4});
    for (std::size_t i = 0; i < 3; ++i) write_gradient(ddp, i, 12);
    mark_all(ddp);
    ddp.wait();
    expect_gradients(ddp, options.fold_scale ? 24 : 3);  // two ranks' gradients, of eight samples
    return std::ranges::count_if(group->submitted, [](const Collective& each) {
      return each.op == ReduceOp::kAverage && each.context.divisor != nullptr;
    });
  };
  const BucketOptions three_buckets{.bucket_bytes_cap = 8, .min_buckets = 3};
  CHECK(divided_buckets({.buckets = three_buckets}) == 3);
  CHECK(divided_buckets({.buckets = three_buckets, .unused = UnusedParameters::kZero}) == 2);
  CHECK(divided_buckets({.buckets = three_buckets, .fold_scale = true}) == 0);
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

// Over tcp, a message is an allocation.
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
      model.values[0][0] += 1;
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
