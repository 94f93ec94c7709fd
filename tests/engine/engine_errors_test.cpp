// SPDX-License-Identifier: MIT
//
// What the engine refuses or warns of: models that differ or cannot be trained, wrong calls, and
// steps without nominal samples.
#include <catch2/catch.hpp>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "support/engine.h"
#include "support/recording_group.h"
#include "support/stderr_capture.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::mark_all;
using test::Model;
using test::RecordingGroup;
using test::run_groups;
using test::run_on_all_backends;

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

TEST_CASE("ranks of which only some divide the gradients get an error", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    const bool folds = group.rank() == 0;
    const std::string error = error_of([&] {
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                  {.fold_scale = folds});
    });
    expect(error == "[ddp] models differ in fold_scale: rank 0 has yes, rank 1 has no", error);
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
      "mark_ready of a pass");
  CHECK(error_of([&] { (void)ddp.gradient_scale(); }) ==
        "[ddp] gradient_scale was called before the first step" + order);
  (void)ddp.begin_step();
  CHECK(error_of([&] { (void)ddp.begin_step(); }) ==
        "[ddp] begin_step was called before wait" + order +
            "; an engine whose step was left by an exception can only be destroyed");
  const auto weight = GENERATE(-1.0, std::numeric_limits<double>::quiet_NaN());
  CHECK_THAT(error_of([&] { ddp.record_metric(3, 1, weight); }),
             Catch::StartsWith("[ddp] metric 3 has a weight of ") &&
                 Catch::EndsWith("must be finite and not negative"));
  CHECK(error_of([&] { ddp.mark_ready(7); }) ==
        "[ddp] mark_ready(7), but the model has 3 parameters, 0 to 2");
  CHECK(error_of([&] { (void)ddp.gradient(3); }) ==
        "[ddp] gradient(3), but the model has 3 parameters, 0 to 2");
  CHECK(error_of([&] { (void)ddp.is_used(3); }) ==
        "[ddp] is_used(3), but the model has 3 parameters, 0 to 2");
  ddp.mark_ready(2);
  CHECK(error_of([&] { ddp.mark_ready(2); }) ==
        "[ddp] rank 1, step 1: 'fc2.weight' was marked ready twice; mark it after its last use (or "
        "learn that by UnusedParameters::kStatic), and add several losses before one backward");
  CHECK(error_of([&] { ddp.record_metric(0, 1, 1); }).find("record_metric") != std::string::npos);
  ddp.mark_ready(0);
  CHECK(error_of([&] { ddp.wait(); }) ==
        "[ddp] rank 1, step 1: backward gave no gradient for 'fc1.bias', or did not mark it ready, "
        "before wait(). If the step does not use it, DdpOptions::unused allows that; frozen "
        "parameters are left out when the engine is made");
}

TEST_CASE("an optimizer that asks before wait() gets an error", "[engine]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters, {.fold_scale = true});
    expect(!ddp.should_step(), "nothing to step with before the first step");
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

TEST_CASE("a step's samples and its wait for data are finite and not negative", "[engine]") {
  const auto group = std::make_shared<RecordingGroup>(2);
  Model model(0);
  DistributedDataParallel ddp(group, model.parameters, {.nominal_samples = 1});
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
    CHECK_THAT(error_of([&] { (void)ddp.begin_step({.samples = bad}); }),
               Catch::Contains("begin_step: the number of samples is "));
    CHECK_THAT(error_of([&] { (void)ddp.begin_step({.data_seconds = bad}); }),
               Catch::Contains("begin_step: data_seconds is "));
  }
}

// Otherwise is_over() would be true of a step that has gradients, and a loop would drop them.
TEST_CASE("a rank whose data have run out has no samples", "[engine]") {
  for (const int world_size : {1, 2}) {
    const auto group = std::make_shared<RecordingGroup>(world_size);
    Model model(0);
    DistributedDataParallel ddp(group, model.parameters, {.nominal_samples = 1});
    CHECK_THAT(
        error_of([&] { (void)ddp.begin_step({.is_active = false}); }),
        Catch::StartsWith("[ddp] begin_step: is_active = false says that the data of rank") &&
            Catch::EndsWith("samples, which is 1 by default, must then be 0"));
    (void)ddp.begin_step({.samples = 0, .is_active = false});
  }
}

TEST_CASE("a step without nominal_samples causes one warning, on rank 0", "[engine]") {
  const auto warnings = [](double nominal_samples, const StepOptions& options) {
    test::StderrCapture capture;
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters, {.nominal_samples = nominal_samples});
      for (int step = 0; step < 2; ++step) {
        (void)ddp.begin_step(options);
        mark_all(ddp);
        ddp.wait();
        model.values[0][0] += 1;
      }
    });
    return capture.text();
  };
  const std::string warning = warnings(0, {.samples = 64});
  const std::string begin =
      "[ddp] a step has 64 samples and DdpOptions::nominal_samples is not set";
  CHECK_THAT(warning, Catch::Contains(begin));
  CHECK(warning.find(begin) == warning.rfind(begin));
  CHECK(warnings(0, {}).empty());
  CHECK(warnings(1, {.samples = 64}).empty());
  CHECK_THAT(warnings(32, {}), Catch::Contains("StepOptions::samples is not set, so the first step "
                                               "counts as 1 sample, but "
                                               "DdpOptions::nominal_samples is 32"));
  CHECK(warnings(32, {.samples = 1}).empty());
  CHECK(warnings(1, {}).empty());
}

TEST_CASE("passes of one sample that add up to the nominal samples cause no warning", "[engine]") {
  test::StderrCapture capture;
  run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    Model model(0);
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters, {.nominal_samples = 2});
    ddp.accumulate(2);
    for (int pass = 0; pass < 2; ++pass) {
      CHECK(ddp.begin_step() == 0.5);
      mark_all(ddp);
      ddp.wait();
    }
    model.values[0][0] += 1;
    ddp.accumulate(1);
    CHECK(ddp.begin_step({.samples = 1}) == 0.5);  // the rest of an epoch
    mark_all(ddp);
    ddp.wait();
  });
  CHECK(capture.text().empty());
}

TEST_CASE("an optimizer that never asks for the folded scale causes a warning", "[engine]") {
  const auto warnings = [](bool asks, int overflows = 0) {
    test::StderrCapture capture;
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      Model model(0);
      const auto shared = group.shared_from_this();
      DistributedDataParallel ddp(shared, model.parameters,
                                  {.fold_scale = true, .non_finite = NonFinite::kSkip});
      for (int step = 0; step < 12 + overflows; ++step) {
        (void)ddp.begin_step();
        test::write_gradient(ddp, 0, step < overflows ? HUGE_VAL : 1 + group.rank());
        mark_all(ddp);
        ddp.wait();
        if (asks && ddp.should_step()) CHECK(ddp.gradient_scale() != nullptr);
        model.values[0][0] += 1;
      }
      (void)ddp.summary();
    });
    return capture.text();
  };
  CHECK(warnings(true).empty());
  CHECK_THAT(warnings(true, 11), !Catch::Contains("nothing has called gradient_scale()"));
  CHECK_THAT(warnings(false), Catch::Contains("nothing has called gradient_scale()"));
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

TEST_CASE("an engine refuses buffers and flat gradients in memory that it uses for something else",
          "[engine]") {
  const auto group = std::make_shared<RecordingGroup>(2);
  Model model(0);
  const auto refusal = [&](const DdpOptions& options) {
    return error_of([&] { DistributedDataParallel ddp(group, model.parameters, options); });
  };
  const ModelBuffer mean{"mean", model.parameters[1].value.slice(3, 2)};
  CHECK_THAT(
      refusal({.buffers = {mean}}),
      Catch::Contains("the value of 'fc1.bias' and the buffer 'mean' are in the same memory"));
  std::vector<double> memory(309);
  model.parameters[0].value.data = memory.data();
  CHECK_THAT(
      refusal({.flat_gradients = buffer_of(memory)}),
      Catch::Contains("the value of 'fc1.weight' and flat_gradients are in the same memory"));
  std::vector<double> inside(16);
  const ModelBuffer outer{"outer", buffer_of(inside)}, inner{"inner", outer.value.slice(2, 2)};
  model.parameters[2].value.data = inside.data() + 8;
  CHECK_THAT(refusal({.buffers = {outer, inner}}),
             Catch::Contains("the buffer 'outer' and the value of 'fc2.weight' are in the same"));
  CHECK(group->submitted.empty());
  model.parameters[2].value.data = model.values[2].data();
  CHECK(refusal({.buffers = {outer, inner}}).empty());  // buffers may share memory
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
  void* const memory = std::exchange(model.parameters[0].value.data, nullptr);
  CHECK(error_of([&] { DistributedDataParallel ddp(group, model.parameters); }) ==
        "[ddp] parameter 'fc1.weight': its value is float64[300] on cpu, but has no memory");
  model.parameters[0].value.data = memory;
  CHECK(error_of([&] {
          DistributedDataParallel ddp(group, model.parameters, {.fingerprint_every = -1});
        }) == "[ddp] fingerprint_every is -1, but it must not be negative");
  model.parameters[2].name = "fc1.weight";
  CHECK(error_of([&] { DistributedDataParallel ddp(group, model.parameters); }) ==
        "[ddp] two parameters have the name 'fc1.weight'");
  const ModelBuffer buffer{"mean", buffer_of(model.values[0])};
  CHECK(error_of([&] {
          DistributedDataParallel ddp(group, Model(0).parameters, {.buffers = {buffer, buffer}});
        }) == "[ddp] two buffers have the name 'mean'");
  const ModelBuffer empty{"bn.mean", {nullptr, 64, DType::kFloat32}};
  CHECK(error_of([&] {
          DistributedDataParallel ddp(group, Model(0).parameters, {.buffers = {empty}});
        }) == "[ddp] buffer 'bn.mean': its value is float32[64] on cpu, but has no memory");
  const ModelBuffer elsewhere{"bn.mean",
                              {model.values[0].data(), 64, DType::kFloat32, cuda_device(0)}};
  CHECK(error_of([&] {
          DistributedDataParallel ddp(group, Model(0).parameters, {.buffers = {elsewhere}});
        }) == "[ddp] buffer 'bn.mean': its value is float32[64] on cuda:0, but must be on cpu");
  CHECK(error_of([&] { DistributedDataParallel ddp(nullptr, Model(0).parameters); }) ==
        "[ddp] DistributedDataParallel needs a process group, but got a null pointer");
  CHECK(group->submitted.empty());
}
