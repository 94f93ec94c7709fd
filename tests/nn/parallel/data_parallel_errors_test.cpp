// SPDX-License-Identifier: MIT
//
// What DataParallel refuses, and modules that throw on some of its devices, all of which are the
// CPU here.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/parallel/data_parallel.h"
#include "support/gate.h"
#include "support/run_ranks.h"
#include "support/scale_module.h"

using namespace ddp;
using Catch::Matchers::Contains;
using nn::DataParallel;
using nn::Tape;
using nn::Tensor;
using nn::Variable;
using test::cpus;
using test::error_of;
using test::mean;
using test::Scale;
using test::scale_factory;

namespace {

// Its output has an element for each pair of samples.
class Pairs final : public nn::Module {
 public:
  Variable forward(Tape&, const Variable& input) override {
    const std::size_t n = input.shape()[0];
    return Tensor::zeros({n, n}, input.value().dtype());
  }
};

// A module that fails on request.
class Failing final : public nn::Module {
 public:
  enum class In { kNothing, kForward, kBackward };

  explicit Failing(const nn::Scope& scope) : scale(scope) { register_module(scale); }
  Variable forward(Tape& tape, const Variable& input) override {
    before_forward();
    const Variable output = scale.forward(tape, input);
    if (fails_in == In::kForward) throw std::range_error("in forward");
    return tape.record(output.value(),
                       nn::Edge{output, [this](const Buffer& grad, const GradientTarget& target) {
                                  if (fails_in == In::kBackward) throw std::range_error("there");
                                  copy(grad, target.buffer);
                                }});
  }

  Scale scale;
  In fails_in = In::kNothing;
  std::function<void()> before_forward = [] {};
};

}  // namespace

TEST_CASE("an input that is not on the module's device is refused", "[data-parallel]") {
  nn::Context context;
  DataParallel model(context, {context, DType::kFloat64, 0}, scale_factory(),
                     {.device_ids = cpus(2)});
  const Tensor here = Tensor::zeros({2, 1}, DType::kFloat64);
  Buffer buffer = here.buffer();
  buffer.device = cuda_device(1);
  const Tensor there = Tensor::view(buffer, here.shape());
  Tape tape(context);
  CHECK_THAT(error_of([&] { (void)model.forward(tape, there); }),
             Contains("an input on cuda:1, expected cpu, the module's device"));
  CHECK_THAT(error_of([&] { (void)model.loss(tape, here, there, mean); }),
             Contains("targets on cuda:1, expected cpu"));
}

TEST_CASE("a replica's exception reaches the caller, and the next pass works", "[data-parallel]") {
  nn::Context context;
  DataParallel model(context, {context, DType::kFloat64, 0}, scale_factory(100, 1),
                     {.device_ids = cpus(2)});
  const std::vector<double> rows = {1, 2, 4, 8};
  Tape tape(context);
  CHECK_THROWS_AS(model.forward(tape, context.from_host<double>(rows, {4, 1})), std::range_error);
  const Variable output =
      model.forward(tape, context.from_host<double>(std::span(rows).first(2), {2, 1}));
  CHECK(context.to_host<double>(output.value()) == std::vector<double>{1, 2});
}

TEST_CASE("the module's own exception is thrown after the replicas are done", "[data-parallel]") {
  nn::Context context;
  test::Gate module_throws;
  std::atomic<bool> replica_is_done = false;
  const auto make = [&, made = 0](const nn::Scope& scope) mutable {
    auto module = std::make_unique<Failing>(scope);
    if (made++ == 0) {
      module->fails_in = Failing::In::kForward;
      module->before_forward = [&] { module_throws.raise(); };
    } else {
      module->before_forward = [&] {
        (void)module_throws.wait_for(1);
        for (int i = 0; i < 1000; ++i) std::this_thread::yield();
        replica_is_done = true;
      };
    }
    return module;
  };
  DataParallel model(context, {context, DType::kFloat64, 0}, make, {.device_ids = cpus(2)});
  Tape tape(context);
  CHECK_THROWS_AS(model.forward(tape, Tensor::zeros({2, 1}, DType::kFloat64)), std::range_error);
  CHECK(replica_is_done);
}

TEST_CASE("a backward that throws leaves nothing to the next one", "[data-parallel]") {
  const std::size_t failing = GENERATE(0, 1);  // 0: the module itself
  nn::Context context;
  std::vector<Failing*> modules;
  const auto make = [&](const nn::Scope& scope) {
    auto module = std::make_unique<Failing>(scope);
    modules.push_back(module.get());
    return module;
  };
  DataParallel model(context, {context, DType::kFloat64, 0}, make, {.device_ids = cpus(2)});
  const std::vector<double> rows = {1, 2, 4};
  const Tensor input = context.from_host<double>(rows, {3, 1});
  Tape tape(context);
  Failing& module = *modules.at(failing);
  module.fails_in = Failing::In::kBackward;
  CHECK_THROWS_AS(tape.backward(model.loss(tape, input, input, mean)), std::range_error);
  module.fails_in = Failing::In::kNothing;
  for (const nn::Parameter* parameter : model.parameters()) CHECK_FALSE(parameter->has_grad());
  tape.backward(model.loss(tape, input, input, mean));
  CHECK(context.to_host<double>(model.parameters()[0]->grad())[0] == Approx(7.0 / 3));
  CHECK(context.to_host<double>(model.parameters()[1]->grad())[0] == Approx(1));
}

TEST_CASE("a loss needs one target for each sample", "[data-parallel]") {
  nn::Context context;
  const auto error = [&](const nn::Shape& targets, std::size_t dim) {
    DataParallel model(context, {context, DType::kFloat64, 0}, scale_factory(),
                       {.device_ids = cpus(2), .dim = dim});
    Tape tape(context);
    return error_of([&] {
      (void)model.loss(tape, Tensor::zeros({4, 1}, DType::kFloat64),
                       Tensor::zeros(targets, DType::kFloat64), mean);
    });
  };
  CHECK_THAT(error({3, 1}, 0), Contains("[3, 1]") && Contains("4 samples"));
  CHECK_THAT(error({5, 1}, 0), Contains("[5, 1]") && Contains("4 samples"));
  CHECK_THAT(error({4, 1}, 1), Contains("[4, 1]") && Contains("1 samples"));
  CHECK_THAT(error({}, 0), Contains("[]"));
}

TEST_CASE("a factory that makes different modules is refused", "[data-parallel]") {
  nn::Context context;
  const auto error = [&](const nn::ModuleFactory& make) {
    return error_of([&] {
      const DataParallel model(context, {context, DType::kFloat64, 0}, make,
                               {.device_ids = cpus(2)});
    });
  };
  CHECK_THAT(error([made = 0](const nn::Scope& scope) mutable {
               return std::make_unique<nn::Linear>(scope, 1, ++made);
             }),
             Contains("'weight' float64[2, 1] in place of 'weight' float64[1, 1]"));
  CHECK_THAT(error([made = 0](const nn::Scope& scope) mutable {
               const nn::BatchNormOptions options{.track_running_stats = made++ == 0};
               return std::make_unique<nn::BatchNorm1d>(scope, 1, options);
             }),
             Contains("nothing in place of 'running_mean' float64[1]"));
  CHECK_THAT(error([made = 0](const nn::Scope& scope) mutable -> std::unique_ptr<nn::Module> {
               if (made++ == 0) return std::make_unique<Scale>(scope);
               return std::make_unique<nn::Linear>(scope, 1, 1);
             }),
             Contains("1 modules in place of 2"));
  for (const int modules : {0, 1}) {
    const auto make = [left = modules](const nn::Scope& scope) mutable {
      return left-- > 0 ? std::make_unique<nn::Linear>(scope, 1, 1) : nullptr;
    };
    CHECK(error(make) == "[nn] DataParallel: the factory made no module");
  }
}

TEST_CASE("outputs that do not fit together are refused", "[data-parallel]") {
  nn::Context context;
  const Tensor input = Tensor::zeros({5, 1}, DType::kFloat64);
  Tape tape(context);
  DataParallel pairs(context, {context, DType::kFloat64, 0},
                     [](const nn::Scope&) { return std::make_unique<Pairs>(); },
                     {.device_ids = cpus(2)});
  CHECK(error_of([&] { (void)pairs.forward(tape, input); }) ==
        "[nn] DataParallel: an output of shape [2, 2] float64 cannot be joined along dimension 0 "
        "with one of shape [3, 3] float64");

  for (const std::size_t devices : {1, 2}) {
    DataParallel model(context, {context, DType::kFloat64, 0}, scale_factory(),
                       {.device_ids = cpus(devices)});
    const auto without_mean = [](Tape&, const Variable& output, const Tensor&) { return output; };
    CHECK_THAT(error_of([&] { (void)model.loss(tape, input, input, without_mean); }),
               Contains("[nn] DataParallel: a loss of shape [") &&
                   Contains(", 1], expected one number, the mean over the samples"));
  }
}

TEST_CASE("impossible lists of devices are refused", "[data-parallel]") {
  nn::Context context;
  const auto error = [&](std::vector<Device> devices) {
    return error_of([&] {
      const DataParallel model(context, {context, DType::kFloat64, 0}, scale_factory(),
                               {.device_ids = std::move(devices)});
    });
  };
  CHECK_THAT(error({cuda_device(0), cuda_device(1)}),
             Contains("the module is on cpu, which is not among the devices: cuda:0, cuda:1"));
  CHECK_THAT(error({}), Contains("device_ids is empty; the module is on cpu"));
  CHECK_THAT(error({kCpuDevice, cuda_device(1), cuda_device(1)}),
             Contains("cuda:1 is named twice"));
  DataParallel model(context, {context, DType::kFloat64, 0}, scale_factory(),
                     {.device_ids = cpus(2), .dim = 2});
  Tape tape(context);
  CHECK_THAT(error_of([&] {
               (void)model.forward(tape, Tensor::zeros({3, 1}, DType::kFloat64));
             }),
             Contains("an input of shape [3, 1] has no dimension 2"));
}
