// SPDX-License-Identifier: MIT
//
// One process on several devices, all of which are the CPU here. data_parallel_errors_test.cpp has
// what goes wrong.
#include <catch2/catch.hpp>

#include <memory>
#include <numeric>
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
#include "support/scale_module.h"

using namespace ddp;
using nn::DataParallel;
using nn::Piece;
using nn::Tape;
using nn::Tensor;
using nn::Variable;
using test::cpus;
using test::factory;
using test::LabelledImages;
using test::largest_difference;
using test::LossOn;
using test::make_batch;
using test::mean;
using test::scale_factory;

namespace {

// Its output is the size of dimension 1 of its input, everywhere.
class Width final : public nn::Module {
 public:
  Variable forward(Tape& tape, const Variable& input) override {
    const Tensor width = tape.context().empty(input.shape(), input.value().dtype());
    fill(width.buffer(), static_cast<double>(input.shape()[1]));
    return width;
  }
};

// A module that contains a batch norm.
class Normalized final : public nn::Module {
 public:
  explicit Normalized(const nn::Scope& scope) : norm(scope, 1) { register_module(norm); }
  Variable forward(Tape& tape, const Variable& input) override { return norm.forward(tape, input); }

  nn::BatchNorm1d norm;
};

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
