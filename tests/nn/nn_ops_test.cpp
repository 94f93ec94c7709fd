// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "ddp/nn/models/mlp.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/scope.h"
#include "support/gradients.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using ddp::DType;
using ddp::test::check_gradients;
using ddp::test::error_of;
using ddp::test::labels_for;
using ddp::test::Loss;
using ddp::test::uniform_tensor;

}  // namespace

TEST_CASE("gradients of linear equal central differences, including the input's", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  Parameter x = scope.uniform("x", {5, 4}, 1);
  Parameter weight = scope.uniform("weight", {3, 4}, 1);
  Parameter bias = scope.uniform("bias", {3}, 1);
  const Tensor labels = labels_for(context, 5, 3);
  const Loss loss = [&](Tape& tape) {
    return softmax_cross_entropy(
        tape, linear(tape, tape.watch(x), tape.watch(weight), tape.watch(bias)), labels);
  };
  check_gradients(context, loss, {&x, &weight, &bias});
}

TEST_CASE("gradients of relu and softmax_cross_entropy equal central differences", "[nn]") {
  Context context;
  Parameter x = Scope(context, DType::kFloat64, 1).uniform("x", {7, 3}, 1);
  const Tensor labels = labels_for(context, 7, 3);
  const Loss loss = [&](Tape& tape) {
    return softmax_cross_entropy(tape, relu(tape, tape.watch(x)), labels);
  };
  check_gradients(context, loss, {&x});
}

TEST_CASE("gradients accumulate where a tensor is used twice", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  Parameter weight = scope.uniform("weight", {4, 4}, 1);
  Parameter bias = scope.uniform("bias", {4}, 1);
  const Tensor x = uniform_tensor(context, {5, 4});
  const Tensor labels = labels_for(context, 5, 4);
  const Loss shared_weight = [&](Tape& tape) {
    const Variable hidden = relu(tape, linear(tape, x, tape.watch(weight), tape.watch(bias)));
    const Variable logits = linear(tape, hidden, tape.watch(weight), tape.watch(bias));
    return softmax_cross_entropy(tape, logits, labels);
  };
  check_gradients(context, shared_weight, {&weight, &bias});
  weight.clear_grad();
  bias.clear_grad();
  const Loss shared_activation = [&](Tape& tape) {
    const Variable hidden = relu(tape, linear(tape, x, tape.watch(weight), tape.watch(bias)));
    // x W' with W from the same activation: 5 x 4 as weight gives 5 x 5 logits.
    const Variable logits = linear(tape, hidden, hidden, Tensor::zeros({5}, DType::kFloat64));
    return softmax_cross_entropy(tape, logits, labels);
  };
  check_gradients(context, shared_activation, {&bias, &weight});
}

TEST_CASE("gradients of the whole MLP equal central differences", "[nn]") {
  Context context;
  Mlp model(Scope(context, DType::kFloat64, 3), {12, 8, 6, 4});
  const Tensor x = uniform_tensor(context, {5, 1, 3, 4});
  const Tensor labels = labels_for(context, 5, 4);
  const Loss loss = [&](Tape& tape) {
    return softmax_cross_entropy(tape, model.forward(tape, x), labels);
  };
  check_gradients(context, loss, {model.parameters().begin(), model.parameters().end()});
}

TEST_CASE("float32 gradients equal float64 gradients to single precision", "[nn]") {
  Context context;
  Mlp single(Scope(context, DType::kFloat32, 3), {12, 8, 6, 4});
  Mlp exact(Scope(context, DType::kFloat64, 3), {12, 8, 6, 4});
  const Tensor x = uniform_tensor(context, {5, 12});
  std::vector<float> rounded;
  for (const double value : x.buffer().as<double>()) rounded.push_back(static_cast<float>(value));
  const Tensor labels = labels_for(context, 5, 4);
  Tape tape(context);
  tape.backward(softmax_cross_entropy(tape, exact.forward(tape, x), labels));
  const Tensor single_x = context.from_host<float>(rounded, {5, 12});
  tape.backward(softmax_cross_entropy(tape, single.forward(tape, single_x), labels));
  for (std::size_t p = 0; p < exact.parameters().size(); ++p) {
    const auto expected = exact.parameters()[p]->grad().buffer().as<double>();
    const auto gradients = single.parameters()[p]->grad().buffer().as<float>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(gradients[i] == Approx(expected[i]).margin(1e-6));
    }
  }
}

TEST_CASE("an empty batch gives loss 0 and gradients of 0", "[nn]") {
  Context context;
  Mlp model(Scope(context, DType::kFloat64, 3), {12, 8, 6, 4});
  for (Parameter* parameter : model.parameters()) {
    for (double& g : parameter->grad().buffer().as<double>()) g = std::nan("");
  }
  Tape tape(context);
  const Tensor x = uniform_tensor(context, {0, 12});
  const Variable loss =
      softmax_cross_entropy(tape, model.forward(tape, x), labels_for(context, 0, 4));
  CHECK(context.to_host<double>(loss.value()).front() == 0);
  CHECK(tape.backward(loss).size() == 6);
  for (Parameter* parameter : model.parameters()) {
    for (const double g : parameter->grad().buffer().as<double>()) CHECK(g == 0);
  }
}

TEST_CASE("count_correct counts rows whose largest logit is the label's", "[nn]") {
  Context context;
  const Tensor logits = context.from_host(std::vector<float>{0, 1, 3, 2, 5, 9}, {3, 2});
  const Tensor labels = context.from_host<std::int64_t>(std::vector<std::int64_t>{1, 0, 0}, {3});
  CHECK(context.to_host<std::int64_t>(count_correct(context, logits, labels)).front() == 2);
  CHECK(context.to_host<std::int64_t>(count_correct(context, logits, labels, 2)).front() == 3);
}

TEST_CASE("a shape takes integers of any type, and no negative ones", "[nn]") {
  const std::int64_t rows = 3;
  const int columns = 4;
  CHECK(to_string(Shape{rows, columns, std::size_t{5}, 6U}) == "[3, 4, 5, 6]");
  const auto huge = std::int64_t{1} << 32;
  CHECK((Shape{huge, 0, huge, huge}.count()) == 0);
  CHECK((Shape{huge, 1 << 28}.count()) == std::size_t{1} << 60);
  CHECK_THROWS_AS((Shape{huge, huge}.count()), std::invalid_argument);
  CHECK_THROWS_AS((Shape{huge, 1 << 29}.count()), std::invalid_argument);
  const std::int64_t less = -1;
  CHECK(error_of([&] {
          static_cast<void>(Shape{less, columns});
        }) == "[kernels] a shape or size of -1: it cannot be negative");
}

TEST_CASE("operations refuse wrong shapes or dtypes and name them", "[nn]") {
  Context context;
  Tape tape(context);
  const auto zeros = [](const Shape& shape, DType dtype = DType::kFloat32) {
    return Tensor::zeros(shape, dtype);
  };
  CHECK(error_of([&] {
          static_cast<void>(linear(tape, zeros({2, 5}), zeros({3, 4}), zeros({3})));
        }) ==
        "[nn] linear: x is [2, 5], weight [3, 4], bias [3], expected [..., in], [out, in], [out]");
  CHECK(
      error_of([&] {
        static_cast<void>(linear(tape, zeros({2, 4}), zeros({3, 4}, DType::kFloat64), zeros({3})));
      }) ==
      "[nn] linear: x is float32, weight float64: the batches (DataLoaderOptions::dtype) and the "
      "module's parameters (its Scope) need one type");
  const Tensor labels = Tensor::zeros({2}, DType::kInt64);
  CHECK(error_of([&] {
          static_cast<void>(softmax_cross_entropy(tape, zeros({2, 5, 2, 2}), labels));
        }) == "[nn] softmax_cross_entropy: the logits are [2, 5, 2, 2], expected [n, classes]");
  CHECK(error_of([&] {
          static_cast<void>(softmax_cross_entropy(tape, zeros({2, 0}), labels));
        }) == "[nn] softmax_cross_entropy: the logits are [2, 0], expected [n, classes]");
  CHECK(error_of([&] {
          static_cast<void>(count_correct(context, zeros({2, 5, 2, 2}), labels));
        }) == "[nn] count_correct: the logits are [2, 5, 2, 2], expected [n, classes]");
  CHECK(error_of([&] {
          static_cast<void>(zeros({2, 3}).reshaped({4}));
        }) == "[nn] float32[6] on cpu does not have the shape [4]");
}
