// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/nn/models/factory.h"
#include "ddp/nn/models/lenet5.h"
#include "ddp/nn/ops.h"
#include "support/gradients.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using ddp::DType;
using ddp::Size2d;
using ddp::test::check_gradients;
using ddp::test::error_of;
using ddp::test::labels_for;
using ddp::test::Loss;
using ddp::test::uniform_tensor;

}  // namespace

TEST_CASE("gradients of conv2d equal central differences, including the input's", "[nn]") {
  const std::size_t batch = GENERATE(1U, 3U, 9U);
  const Conv2dOptions options =
      GENERATE(Conv2dOptions{}, Conv2dOptions{.stride = {2, 3}, .padding = {1, 2}});
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  Parameter x = scope.uniform("x", {batch, 2, 5, 7}, 1);
  Parameter weight = scope.uniform("weight", {3, 2, 3, 2}, 1);
  Parameter bias = scope.uniform("bias", {3}, 1);
  const Loss loss = [&](Tape& tape) {
    const Variable y = conv2d(tape, tape.watch(x), tape.watch(weight), tape.watch(bias), options);
    const Variable logits = flatten(tape, y);
    return softmax_cross_entropy(tape, logits, labels_for(context, batch, logits.shape()[1]));
  };
  check_gradients(context, loss, {&x, &weight, &bias});
}

TEST_CASE("gradients of max_pool2d equal central differences", "[nn]") {
  const Size2d stride = GENERATE(Size2d{1, 1}, Size2d{2, 2});
  Context context;
  Parameter x = Scope(context, DType::kFloat64, 1).uniform("x", {2, 3, 5, 7}, 1);
  const Loss loss = [&](Tape& tape) {
    const Variable logits = flatten(tape, max_pool2d(tape, tape.watch(x), {2, 2}, stride));
    return softmax_cross_entropy(tape, logits, labels_for(context, 2, logits.shape()[1]));
  };
  check_gradients(context, loss, {&x});
}

TEST_CASE("gradients of LeNet-5 equal central differences", "[nn]") {
  Context context;
  LeNet5 model(Scope(context, DType::kFloat64, 3));
  const Tensor x = uniform_tensor(context, {2, 784});
  const Tensor labels = labels_for(context, 2, 10);
  const Loss loss = [&](Tape& tape) {
    return softmax_cross_entropy(tape, model.forward(tape, x), labels);
  };
  // Only every 61st element, since each takes two passes through the model.
  check_gradients(context, loss, {model.parameters().begin(), model.parameters().end()}, 61);
}

TEST_CASE("one number is a square kernel, stride and padding, as in PyTorch", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat32, 1);
  ddp::nn::Conv2d conv(scope, 1, 2, 3, {.stride = 2, .padding = {1}});
  CHECK(conv.parameters()[0]->value().shape() == ddp::nn::Shape{2, 1, 3, 3});
  Tape tape(context);
  const Tensor x = Tensor::zeros({1, 1, 8, 12}, ddp::DType::kFloat32);
  CHECK(conv.forward(tape, x).shape() == ddp::nn::Shape{1, 2, 4, 6});
}

TEST_CASE("LeNet-5 has PyTorch's names and shapes in order, and its bounds", "[nn]") {
  Context context;
  const auto model = make_model("lenet5", Scope(context, DType::kFloat64, 1));
  std::string text;
  for (const Parameter* parameter : model->parameters()) {
    text += parameter->name() + to_string(parameter->value().shape()) + " ";
  }
  CHECK(text ==
        "conv1.weight[6, 1, 5, 5] conv1.bias[6] conv2.weight[16, 6, 5, 5] conv2.bias[16] "
        "fc1.weight[120, 400] fc1.bias[120] fc2.weight[84, 120] fc2.bias[84] fc3.weight[10, 84] "
        "fc3.bias[10] ");
  double largest = 0;
  for (const double value : context.to_host<double>(model->parameters()[2]->value())) {
    largest = std::max(largest, std::abs(value));
  }
  CHECK(largest <= 1 / std::sqrt(150.0));
  CHECK(largest > 0.99 / std::sqrt(150.0));
}

TEST_CASE("LeNet-5 takes rows of pixels and images alike, and an empty batch", "[nn]") {
  Context context;
  LeNet5 model(Scope(context, DType::kFloat64, 3));
  const Tensor rows = uniform_tensor(context, {3, 784});
  Tape tape(context);
  const Variable of_rows = model.forward(tape, rows);
  const Variable of_images = model.forward(tape, rows.reshaped({3, 1, 28, 28}));
  CHECK(of_rows.shape() == Shape{3, 10});
  CHECK(context.to_host<double>(of_rows.value()) == context.to_host<double>(of_images.value()));

  const Variable none = model.forward(tape, uniform_tensor(context, {0, 784}));
  const Variable loss = softmax_cross_entropy(tape, none, labels_for(context, 0, 10));
  CHECK(tape.backward(loss).size() == 10);
  for (Parameter* parameter : model.parameters()) {
    for (const double g : parameter->grad().buffer().as<double>()) REQUIRE(g == 0);
  }
}

TEST_CASE("LeNet-5 refuses images of wrong sizes and says why", "[nn]") {
  Context context;
  Tape tape(context);
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::kFloat32); };
  LeNet5 model(Scope(context, DType::kFloat32, 1));
  CHECK(error_of([&] {
          static_cast<void>(model.forward(tape, zeros({2, 100})));
        }) == "[nn] float32[200] on cpu does not have the shape [2, 1, 28, 28]");
}
