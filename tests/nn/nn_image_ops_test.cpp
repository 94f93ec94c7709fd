// SPDX-License-Identifier: MIT
//
// Compares the gradients of convolutions, pooling and upsampling with central differences, and both
// passes with real PyTorch (tests/reference/make_image_ops_reference.py describes what it ran).
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ddp/nn/modules/conv2d.h"
#include "ddp/nn/modules/conv_transpose2d.h"
#include "ddp/nn/ops.h"
#include "support/gradients.h"
#include "support/reference.h"
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

// x, then weight and bias if the operation has them.
using Operands = std::vector<Variable>;
using Operation = std::function<Variable(Tape&, const Operands&)>;

struct Case {
  std::string name;  // prefix of its lines in the reference
  std::vector<Shape> shapes;
  Operation run;
};

std::optional<Variable> bias_of(const Operands& operands) {
  return operands.size() > 2 ? std::optional(operands[2]) : std::nullopt;
}

Operation convolution(const Conv2dOptions& options) {
  return [options](Tape& tape, const Operands& o) {
    return conv2d(tape, o[0], o[1], bias_of(o), options);
  };
}

Operation transposed_convolution(const ConvTranspose2dOptions& options) {
  return [options](Tape& tape, const Operands& o) {
    return conv_transpose2d(tape, o[0], o[1], bias_of(o), options);
  };
}

const std::vector<Case> kCases{
    {"conv2d_groups",
     {{3, 4, 7, 6}, {6, 2, 3, 3}, {6}},
     convolution({.stride = {2, 1}, .padding = {1, 2}, .groups = 2})},
    {"conv2d_no_bias",
     {{2, 16, 9, 9}, {32, 16, 3, 3}},
     convolution({.stride = {2, 2}, .padding = {1, 1}})},
    {"conv2d_depthwise",
     {{2, 16, 6, 6}, {16, 1, 3, 3}, {16}},
     convolution({.padding = {1, 1}, .groups = 16})},
    {"conv2d_pointwise", {{2, 16, 8, 8}, {3, 16, 1, 1}, {3}}, convolution({})},
    {"conv_transpose2d",
     {{2, 4, 3, 5}, {4, 3, 3, 2}, {3}},
     transposed_convolution({.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}})},
    {"conv_transpose2d_groups",
     {{2, 4, 3, 3}, {4, 3, 2, 2}, {6}},
     transposed_convolution({.stride = {2, 2}, .groups = 2})},
    {"conv_transpose2d_up",
     {{2, 32, 4, 4}, {32, 16, 2, 2}},
     transposed_convolution({.stride = {2, 2}})},
    {"max_pool2d",
     {{2, 3, 9, 8}},
     [](Tape& tape, const Operands& o) {
       return max_pool2d(tape, o[0], {3, 3}, {2, 2}, {1, 1});
     }},
    {"avg_pool2d",
     {{2, 3, 9, 8}},
     [](Tape& tape, const Operands& o) {
       return avg_pool2d(tape, o[0], {3, 2}, {2, 3}, {1, 1});
     }},
    {"adaptive_avg_pool2d",
     {{2, 3, 7, 4}},
     [](Tape& tape, const Operands& o) {
       return adaptive_avg_pool2d(tape, o[0], {3, 5});
     }},
    {"upsample_nearest2d",
     {{2, 3, 4, 5}},
     [](Tape& tape, const Operands& o) {
       return upsample_nearest2d(tape, o[0], {2, 3});
     }},
};

// The operands of a case, held by pointers because a Parameter can be neither copied nor moved.
std::vector<std::unique_ptr<Parameter>> operands_of(const Case& which, const Scope& scope) {
  constexpr const char* kNames[] = {"x", "weight", "bias"};
  std::vector<std::unique_ptr<Parameter>> operands;
  for (const Shape& shape : which.shapes) {
    operands.emplace_back(new Parameter(scope.uniform(kNames[operands.size()], shape, 1)));
  }
  return operands;
}

Operands watch(Tape& tape, const std::vector<std::unique_ptr<Parameter>>& parameters) {
  Operands operands;
  for (const auto& parameter : parameters) operands.push_back(tape.watch(*parameter));
  return operands;
}

Variable loss_of(Tape& tape, const Variable& y) {
  const Variable logits = flatten(tape, y);
  return softmax_cross_entropy(tape, logits,
                               labels_for(tape.context(), logits.shape()[0], logits.shape()[1]));
}

}  // namespace

TEST_CASE("operations on images equal PyTorch's, backward and forward", "[nn][torch]") {
  const auto reference = ddp::test::read_reference(DDP_REFERENCE_DIR "/image_ops_reference.txt", 2);
  const Case which = GENERATE(from_range(kCases));
  const DType dtype = GENERATE(DType::kFloat64, DType::kFloat32);
  const double tolerance = dtype == DType::kFloat64 ? 1e-12 : 1e-5;
  Context context;
  const auto parameters = operands_of(which, Scope(context, dtype, 5));
  Tape tape(context);
  const Variable y = which.run(tape, watch(tape, parameters));
  const Variable loss = loss_of(tape, y);
  tape.backward(loss);
  const auto check = [&](const std::string& what, const Tensor& tensor) {
    CAPTURE(which.name, what);
    CHECK(ddp::test::difference(ddp::test::to_doubles(context, tensor),
                                reference.at(which.name + " " + what)) <= tolerance);
  };
  check("y", y.value());
  check("loss", loss.value());
  for (const auto& parameter : parameters) check(parameter->name(), parameter->grad());
}

TEST_CASE("gradients of operations on images equal central differences", "[nn]") {
  const Case which = GENERATE(from_range(kCases));
  CAPTURE(which.name);
  Context context;
  const auto parameters = operands_of(which, Scope(context, DType::kFloat64, 5));
  const Loss loss = [&](Tape& tape) {
    return loss_of(tape, which.run(tape, watch(tape, parameters)));
  };
  std::vector<Parameter*> pointers;
  for (const auto& parameter : parameters) pointers.push_back(parameter.get());
  check_gradients(context, loss, pointers, 7);
}

TEST_CASE("operations on images add to an existing gradient", "[nn]") {
  const Case which = GENERATE(from_range(kCases));
  const DType dtype = GENERATE(DType::kFloat64, DType::kFloat32);
  CAPTURE(which.name);
  Context context;
  const auto parameters = operands_of(which, Scope(context, dtype, 5));
  Tape tape(context);
  std::vector<std::vector<double>> once;
  tape.backward(loss_of(tape, which.run(tape, watch(tape, parameters))));
  for (const auto& parameter : parameters) {
    once.push_back(ddp::test::to_doubles(context, parameter->grad()));
  }
  tape.backward(loss_of(tape, which.run(tape, watch(tape, parameters))));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<double> twice = ddp::test::to_doubles(context, parameters[i]->grad());
    for (std::size_t j = 0; j < twice.size(); ++j) {
      REQUIRE(twice[j] == Approx(2 * once[i][j]).epsilon(1e-6).margin(1e-7));
    }
  }
}

TEST_CASE("operations on images take an empty batch", "[nn]") {
  const Case which = GENERATE(from_range(kCases));
  CAPTURE(which.name);
  Context context;
  const auto parameters = operands_of(which, Scope(context, DType::kFloat32, 5));
  Tape tape(context);
  Operands operands = watch(tape, parameters);
  const Shape& x = which.shapes.front();
  operands.front() = Tensor::zeros({0, x[1], x[2], x[3]}, DType::kFloat32);
  const Variable y = which.run(tape, operands);
  CHECK(y.shape()[0] == 0);
  if (operands.size() == 1) return;
  tape.backward(loss_of(tape, y));
  for (std::size_t i = 1; i < parameters.size(); ++i) {
    for (const float g : parameters[i]->grad().buffer().as<float>()) REQUIRE(g == 0);
  }
}

TEST_CASE("Conv2d and ConvTranspose2d have PyTorch's names, shapes and bounds", "[nn]") {
  Context context;
  const Scope scope = Scope(context, DType::kFloat64, 1).child("up");
  Conv2d grouped(scope, 8, 12, {3, 3}, {.groups = 4});
  Conv2d plain(scope, 8, 12, {3, 3}, {}, Bias::kNo);
  ConvTranspose2d transposed(scope, 8, 12, {2, 3}, {.groups = 2});
  const auto describe = [](const Module& module) {
    std::string text;
    for (const Parameter* parameter : module.parameters()) {
      text += parameter->name() + to_string(parameter->value().shape()) + " ";
    }
    return text;
  };
  const auto largest = [&](const Module& module) {
    double found = 0;
    for (const double value : context.to_host<double>(module.parameters()[0]->value())) {
      found = std::max(found, std::abs(value));
    }
    return found;
  };
  CHECK(describe(grouped) == "up.weight[12, 2, 3, 3] up.bias[12] ");
  CHECK(describe(plain) == "up.weight[12, 8, 3, 3] ");
  CHECK(describe(transposed) == "up.weight[8, 6, 2, 3] up.bias[12] ");
  CHECK(largest(grouped) == Approx(1 / std::sqrt(18.0)).epsilon(0.03));
  CHECK(largest(plain) == Approx(1 / std::sqrt(72.0)).epsilon(0.03));
  CHECK(largest(transposed) == Approx(1 / std::sqrt(36.0)).epsilon(0.03));
  Tape tape(context);
  const Tensor x = uniform_tensor(context, {2, 8, 5, 5});
  CHECK(grouped.forward(tape, x).shape() == Shape{2, 12, 3, 3});
  CHECK(plain.forward(tape, x).shape() == Shape{2, 12, 3, 3});
  CHECK(transposed.forward(tape, x).shape() == Shape{2, 12, 6, 7});
}

TEST_CASE("operations on images refuse wrong shapes and name them", "[nn]") {
  Context context;
  Tape tape(context);
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::kFloat32); };
  const auto text_of = [&](const auto& run) { return error_of([&] { static_cast<void>(run()); }); };
  CHECK(text_of([&] {
          return conv2d(tape, zeros({2, 3, 5, 5}), zeros({4, 2, 3, 3}), zeros({4}));
        }) ==
        "[nn] conv2d: x is [2, 3, 5, 5], weight [4, 2, 3, 3], bias [4], groups 1, expected [n, in, "
        "height, width], [out, in / groups, height, width], [out]");
  CHECK(
      text_of([&] {
        return conv2d(tape, zeros({2, 4, 5, 5}), zeros({5, 2, 3, 3}), std::nullopt, {.groups = 2});
      }) == "[kernels] conv2d: 2 groups do not divide 4 input and 5 output channels");
  CHECK(text_of([&] {
          return conv_transpose2d(tape, zeros({2, 3, 5, 5}), zeros({3, 2, 2, 2}), std::nullopt,
                                  {.output_padding = {1, 0}});
        }) ==
        "[nn] conv_transpose2d: x is [2, 3, 5, 5], weight [3, 2, 2, 2], bias none, groups 1, "
        "output padding 1 x 0, expected [n, in, height, width], [in, out / groups, height, width], "
        "[out], and an output padding smaller than the stride");
  CHECK(text_of([&] {
          return conv_transpose2d(tape, zeros({2, 3, 1, 5}), zeros({3, 2, 2, 2}), std::nullopt,
                                  {.padding = {1, 0}});
        }) == "[nn] conv_transpose2d: 1 pixels, a kernel of 2 and a padding of 1 leave no output");
  CHECK(text_of([&] {
          return max_pool2d(tape, zeros({2, 25}), {2, 2}, {2, 2});
        }) == "[nn] max_pool2d: x is [2, 25], expected [n, channels, height, width]");
  CHECK(text_of([&] {
          return Conv2d(Scope(context, DType::kFloat32, 1), 3, 4, {1, 1}, {.groups = 2})
              .forward(tape, zeros({}));
        }) == "[nn] Conv2d: 2 groups do not divide 3 channels");
}
