// SPDX-License-Identifier: MIT
//
// One process on several devices, all of which are the CPU here.
#include <catch2/catch.hpp>

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/modules/dropout.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/data_parallel.h"
#include "support/data_parallel_training.h"
#include "support/gate.h"
#include "support/run_ranks.h"

using namespace ddp;
using Catch::Matchers::Contains;
using nn::DataParallel;
using nn::Piece;
using nn::Tape;
using nn::Tensor;
using nn::Variable;
using test::error_of;
using test::factory;
using test::LabelledImages;
using test::largest_difference;
using test::LossOn;
using test::make_batch;

namespace {

std::vector<Device> cpus(std::size_t count) { return std::vector<Device>(count, kCpuDevice); }

// Multiplies its input by a weight of one.
class Scale final : public nn::Module {
 public:
  explicit Scale(const nn::Scope& scope) : linear(scope, 1, 1) {
    fill(linear.parameters()[0]->value().buffer(), 1);
    fill(linear.parameters()[1]->value().buffer(), 0);
    register_module(linear);
  }
  Variable forward(Tape& tape, const Variable& input) override {
    if (limit < static_cast<double>(input.shape()[0])) throw std::range_error("too many rows");
    return linear.forward(tape, input);
  }

  nn::Linear linear;
  double limit = 100;
};

// Its output is the size of dimension 1 of its input, everywhere.
class Width final : public nn::Module {
 public:
  Variable forward(Tape& tape, const Variable& input) override {
    const Tensor width = tape.context().empty(input.shape(), input.value().dtype());
    fill(width.buffer(), static_cast<double>(input.shape()[1]));
    return width;
  }
};

// Its output has an element for each pair of samples.
class Pairs final : public nn::Module {
 public:
  Variable forward(Tape&, const Variable& input) override {
    const std::size_t n = input.shape()[0];
    return Tensor::zeros({n, n}, input.value().dtype());
  }
};

// A module that contains a batch norm.
class Normalized final : public nn::Module {
 public:
  explicit Normalized(const nn::Scope& scope) : norm(scope, 1) { register_module(norm); }
  Variable forward(Tape& tape, const Variable& input) override { return norm.forward(tape, input); }

  nn::BatchNorm1d norm;
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

nn::ModuleFactory scale_factory(double first_limit = 100, double other_limit = 100) {
  return [=, made = 0](const nn::Scope& scope) mutable {
    auto module = std::make_unique<Scale>(scope);
    module->limit = made++ == 0 ? first_limit : other_limit;
    return module;
  };
}

// The mean over the rows.
Variable mean(Tape& tape, const Variable& output, const Tensor&) {
  const std::vector<double> rows = tape.context().to_host<double>(output.value());
  const double n = static_cast<double>(rows.size());
  const std::vector<double> value = {std::accumulate(rows.begin(), rows.end(), 0.0) / n};
  return tape.record(tape.context().from_host<double>(value, {}),
                     nn::Edge{output, [n](const Buffer& grad, const GradientTarget& target) {
                                for (double& each : target.buffer.as<double>()) {
                                  each = grad.as<double>()[0] / n;
                                }
                              }});
}

}  // namespace

TEST_CASE("a batch is cut as torch.chunk cuts it", "[data-parallel]") {
  CHECK(nn::chunk(6, 3) == std::vector<Piece>{{0, 2}, {2, 2}, {4, 2}});
  CHECK(nn::chunk(5, 4) == std::vector<Piece>{{0, 2}, {2, 2}, {4, 1}});  // 3 pieces, not 4
  CHECK(nn::chunk(2, 4) == std::vector<Piece>{{0, 1}, {1, 1}});
  CHECK(nn::chunk(0, 4) == std::vector<Piece>{{0, 0}});
}

TEST_CASE("several devices train like one, however uneven the pieces are", "[data-parallel]") {
  const auto where = GENERATE(LossOn::kOutputDevice, LossOn::kEachDevice);
  for (const std::size_t samples : {12, 7}) {
    const auto alone = test::train_on({.devices = cpus(1)}, samples, LossOn::kOutputDevice);
    for (const std::size_t devices : {1, 2, 3, 4}) {
      const auto spread = test::train_on({.devices = cpus(devices)}, samples, where);
      CHECK(largest_difference(alone, spread) < 1e-12);
    }
  }
}

TEST_CASE("the mean loss of 0.3, 0.2 and 0.8 is 0.4333 on 1, 2 or 3 devices", "[data-parallel]") {
  for (const std::size_t devices : {1, 2, 3}) {
    nn::Context context;
    DataParallel model(context, {context, DType::kFloat64, 0}, scale_factory(),
                       {.device_ids = cpus(devices)});
    const std::vector<double> losses = {0.3, 0.2, 0.8};
    const Tensor input = context.from_host<double>(losses, {3, 1});
    Tape tape(context);
    const Variable gathered = mean(tape, model.forward(tape, input), {});
    const Variable on_each = model.loss(tape, input, input, mean);
    CHECK(context.to_host<double>(gathered.value())[0] == Approx(1.3 / 3).epsilon(1e-14));
    CHECK(context.to_host<double>(on_each.value())[0] == Approx(1.3 / 3).epsilon(1e-14));
  }
}

TEST_CASE("two passes on one tape are summed", "[data-parallel]") {
  nn::Context context;
  DataParallel model(context, {context, DType::kFloat64, 0}, scale_factory(),
                     {.device_ids = cpus(2)});
  const std::vector<double> rows = {1, 2, 4};
  const Tensor input = context.from_host<double>(rows, {3, 1});
  Tape tape(context);
  const Variable once = model.forward(tape, input);
  const Variable twice = model.forward(tape, once.value());
  const auto sum = [](const Buffer& grad, const GradientTarget& target) {
    fill(target.buffer, grad.as<double>()[0]);
  };
  tape.backward(
      tape.record(Tensor::zeros({}, DType::kFloat64), nn::Edge{once, sum}, nn::Edge{twice, sum}));
  CHECK(context.to_host<double>(model.parameters()[0]->grad())[0] == 14);
  CHECK(context.to_host<double>(model.parameters()[1]->grad())[0] == 6);
}

TEST_CASE("outputs and losses are gathered on the tape's context", "[data-parallel]") {
  nn::Context context;
  nn::Context elsewhere;  // what another device would have
  DataParallel model(context, {context, DType::kFloat64, 7}, factory("mlp"),
                     {.device_ids = cpus(3)});
  const LabelledImages batch = make_batch(context, 7);
  const auto gradients = [&](nn::Context& output, LossOn where) {
    for (nn::Parameter* parameter : model.parameters()) parameter->clear_grad();
    Tape tape(output);
    tape.backward(where == LossOn::kEachDevice
                      ? model.loss(tape, batch.images, batch.labels, test::cross_entropy)
                      : test::cross_entropy(tape, model.forward(tape, batch.images), batch.labels));
    std::vector<double> values;
    for (nn::Parameter* parameter : model.parameters()) {
      const auto grad = context.to_host<double>(parameter->grad());
      values.insert(values.end(), grad.begin(), grad.end());
    }
    return values;
  };
  for (const LossOn where : {LossOn::kOutputDevice, LossOn::kEachDevice}) {
    CHECK(gradients(elsewhere, where) == gradients(context, where));
  }
  CHECK(elsewhere.pool().allocations() > 0);
}

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

TEST_CASE("a tape that does not record evaluates on all devices", "[data-parallel]") {
  nn::Context context;
  DataParallel model(context, {context, DType::kFloat64, 7}, factory("mlp"),
                     {.device_ids = cpus(3)});
  const LabelledImages batch = make_batch(context, 7);
  Tape tape(context, nn::Recording::kOff);
  const Variable spread = model.forward(tape, batch.images);
  CHECK(spread.is_constant());
  const Variable alone = model.module().forward(tape, batch.images);
  CHECK(largest_difference(context.to_host<double>(spread.value()),
                           context.to_host<double>(alone.value())) < 1e-14);
}

TEST_CASE("a layer in evaluation mode is in it on every device", "[data-parallel]") {
  nn::Context context;
  const auto make = [](const nn::Scope& scope) { return std::make_unique<Normalized>(scope); };
  DataParallel model(context, {context, DType::kFloat64, 7}, make, {.device_ids = cpus(2)});
  dynamic_cast<Normalized&>(model.module()).norm.train(false);
  const std::vector<double> rows = {1, 2, 4, 8};
  const Tensor input = context.from_host<double>(rows, {4, 1});
  Tape tape(context);
  const auto output = context.to_host<double>(model.forward(tape, input).value());
  CHECK(output == context.to_host<double>(model.module().forward(tape, input).value()));
}

TEST_CASE("what is frozen is frozen on all devices", "[data-parallel]") {
  nn::Context context;
  const auto make = [](const nn::Scope& scope) { return std::make_unique<Normalized>(scope); };
  DataParallel model(context, {context, DType::kFloat64, 7}, make, {.device_ids = cpus(2)});
  model.parameters()[0]->set_requires_grad(false);
  const Tensor input = context.from_host<double>(std::vector<double>{1, 2, 4, 8}, {4, 1});
  Tape tape(context);
  tape.backward(mean(tape, model.forward(tape, input), Tensor()));
  CHECK_FALSE(model.parameters()[0]->has_grad());
  CHECK(model.parameters()[1]->grad().buffer().as<double>()[0] == Approx(1));
}

TEST_CASE("any number of devices drops the same elements", "[data-parallel]") {
  const auto dropped = [](std::size_t devices) {
    nn::Context context;
    const auto make = [](const nn::Scope& scope) { return std::make_unique<nn::Dropout>(scope); };
    DataParallel model(context, {context, DType::kFloat64, 7}, make, {.device_ids = cpus(devices)});
    Tape tape(context, nn::Recording::kOff);
    tape.set_random_key({.seed = 3, .step = 1, .first_row = 1, .row_stride = 2});
    const std::vector<double> ones(7 * 5, 1.0);
    return context.to_host<double>(
        model.forward(tape, context.from_host<double>(ones, {7, 5})).value());
  };
  CHECK(dropped(2) == dropped(1));
  CHECK(dropped(3) == dropped(1));
}

TEST_CASE("inputs may be cut along another dimension than the first", "[data-parallel]") {
  // The outputs of a layer for 2 x n x 3, and the gradients of their mean square.
  const auto run = [](std::size_t devices, std::size_t n) {
    nn::Context context;
    const auto make = [](const nn::Scope& scope) {
      return std::make_unique<nn::Linear>(scope, 3, 4);
    };
    DataParallel model(context, {context, DType::kFloat64, 7}, make,
                       {.device_ids = cpus(devices), .dim = 1});
    std::vector<double> elements(2 * n * 3);
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = ddp::random_unit(1, 2, i) - 0.3;
    Tape tape(context);
    const Variable output = model.forward(tape, context.from_host<double>(elements, {2, n, 3}));
    CHECK(output.shape() == nn::Shape{2, n, 4});
    tape.backward(nn::mean(tape, nn::square(tape, output)));
    std::vector<double> values = context.to_host<double>(output.value());
    for (nn::Parameter* parameter : model.parameters()) {
      const auto grad = context.to_host<double>(parameter->grad());
      values.insert(values.end(), grad.begin(), grad.end());
    }
    return values;
  };
  for (const std::size_t n : {7, 2, 1}) {
    const auto alone = run(1, n);
    for (const std::size_t devices : {2, 3, 4}) {
      CHECK(largest_difference(alone, run(devices, n)) < 1e-14);
    }
  }
}

TEST_CASE("each device has its piece of the dimension along which inputs are cut",
          "[data-parallel]") {
  nn::Context context;
  const auto make = [](const nn::Scope&) { return std::make_unique<Width>(); };
  DataParallel model(context, {context, DType::kFloat64, 0}, make,
                     {.device_ids = cpus(3), .dim = 1});
  Tape tape(context, nn::Recording::kOff);
  const Variable widths = model.forward(tape, Tensor::zeros({2, 5}, DType::kFloat64));
  CHECK(context.to_host<double>(widths.value()) ==
        std::vector<double>{2, 2, 2, 2, 1, 2, 2, 2, 2, 1});
}

TEST_CASE("tensors are cut and joined along any dimension", "[data-parallel]") {
  nn::Context here;
  nn::Context there;
  std::vector<double> elements(2 * 3 * 2);
  std::iota(elements.begin(), elements.end(), 0);
  const Tensor whole = here.from_host<double>(elements, {2, 3, 2});
  for (std::size_t dim = 0; dim < 3; ++dim) {
    const Tensor joined = here.empty(whole.shape(), DType::kFloat64);
    for (const Piece& piece : nn::chunk(whole.shape()[dim], 2)) {
      nn::put_piece(there, nn::take_piece(here, whole, dim, piece, there), here, joined, dim,
                    piece);
    }
    CHECK(here.to_host<double>(joined) == elements);
  }
  const Tensor middle = nn::take_piece(here, whole, 1, {1, 2}, there);
  CHECK(there.to_host<double>(middle) == std::vector<double>{2, 3, 4, 5, 8, 9, 10, 11});
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
