// SPDX-License-Identifier: MIT
//
// Compares element-wise operations and losses with real PyTorch
// (tests/reference/make_layer_reference.py describes the lines) and with central differences.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/gradients.h"
#include "support/layer_reference.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using Catch::Matchers::Contains;
using ddp::DType;
using ddp::test::check_gradients;
using ddp::test::error_of;
using ddp::test::LayerRun;
using ddp::test::reference_draws;
using ddp::test::to_tensor;
using ddp::test::weighted_sum;
using Doubles = std::vector<double>;

using LossOf = std::function<Variable(Tape&, const Variable& x)>;

struct Function {
  std::string name;
  LossOf value_of;  // not only of losses
};

const std::vector<Function>& functions_with_edges() {
  static const std::vector<Function> functions = {
      {"abs", ddp::nn::abs},
      {"clamp", [](Tape& tape, const Variable& x) { return clamp(tape, x, -1, 2); }},
      {"gelu", gelu},
      {"gelu_tanh", gelu_tanh},
      {"leaky_relu", [](Tape& tape, const Variable& x) { return leaky_relu(tape, x, 0.2); }},
      {"relu", relu},
      {"sigmoid", sigmoid},
      {"silu", silu},
      {"softplus", softplus},
      {"square", square},
      {"tanh", ddp::nn::tanh}};
  return functions;
}

Variable above_half(Tape& tape, const Variable& x) { return add(tape, square(tape, x), 0.5); }

const std::vector<Function>& other_functions() {
  static const std::vector<Function> functions = {
      {"exp", ddp::nn::exp},
      {"log", [](Tape& tape, const Variable& x) { return log(tape, above_half(tape, x)); }},
      {"sqrt", [](Tape& tape, const Variable& x) { return sqrt(tape, above_half(tape, x)); }},
      {"numbers",
       [](Tape& tape, const Variable& x) { return add(tape, mul(tape, x, -2.5), 0.75); }},
      {"sub",
       [](Tape& tape, const Variable& x) { return sub(tape, square(tape, x), tanh(tape, x)); }},
      {"mul", [](Tape& tape, const Variable& x) { return mul(tape, x, tanh(tape, x)); }},
      {"div",
       [](Tape& tape, const Variable& x) { return div(tape, tanh(tape, x), above_half(tape, x)); }},
      {"row_sums", [](Tape& tape, const Variable& x) { return row_sums(tape, mul(tape, x, x)); }},
      {"sum", [](Tape& tape, const Variable& x) { return sum(tape, mul(tape, x, x)); }},
      {"mean", [](Tape& tape, const Variable& x) { return mean(tape, mul(tape, x, x)); }}};
  return functions;
}

void check_function(LayerRun& run, const std::string& name, const LossOf& value_of,
                    const Tensor& input) {
  Parameter x("x", input);
  const Variable y = value_of(run.tape(), run.tape().watch(x));
  run.check("y", y.value());
  static_cast<void>(run.tape().backward(weighted_sum(run.tape(), y, "grad " + name)));
  run.check("grad_x", x.grad());
}

void check_loss(const std::string& name, const Shape& shape, DType dtype, double scale,
                const LossOf& loss_of) {
  LayerRun run(name, shape, dtype);
  Parameter x("x", run.input(0, scale));
  const Variable loss = loss_of(run.tape(), run.tape().watch(x));
  run.check("loss", loss.value());
  run.tape().backward(loss);
  run.check("grad_x", x.grad());
}

Tensor edges(Context& context, DType dtype) {
  return to_tensor(context, {-1000, -1, 0, 2, 1000}, {5}, dtype);
}

Tensor probabilities(Context& context, const Shape& shape, DType dtype) {
  Doubles values = reference_draws("target bce", 0, shape.count());
  for (double& value : values) value = (value + 1) / 2;
  return to_tensor(context, values, shape, dtype);
}

}  // namespace

TEST_CASE("losses and their gradients equal PyTorch's", "[nn][torch]") {
  const DType dtype = GENERATE(DType::kFloat64, DType::kFloat32);
  const Shape shape{3, 2, 4};
  check_loss("mse", shape, dtype, 1, [&](Tape& tape, const Variable& x) {
    const Doubles target = reference_draws("target mse", 0, shape.count());
    return mse_loss(tape, x, to_tensor(tape.context(), target, shape, dtype));
  });
  check_loss("bce", shape, dtype, 1, [&](Tape& tape, const Variable& x) {
    return bce_with_logits(tape, x, probabilities(tape.context(), shape, dtype));
  });
  for (const double scale : {1.0, 1000.0}) {
    const std::string name = scale == 1 ? "bce_weighted" : "bce_huge";
    check_loss(name, shape, dtype, scale, [&](Tape& tape, const Variable& x) {
      return bce_with_logits(tape, x, probabilities(tape.context(), shape, dtype), 2.5);
    });
  }
  check_loss("smoothed", {6, 4}, dtype, 1, [&](Tape& tape, const Variable& x) {
    std::vector<std::int64_t> labels;
    for (const double draw : reference_draws("target smoothed", 0, 6)) {
      labels.push_back(static_cast<std::int64_t>((draw + 1) * 2));
    }
    const Tensor label = tape.context().from_host<std::int64_t>(labels, {6});
    return softmax_cross_entropy(tape, x, label, 0.1);
  });
}

TEST_CASE("functions and their gradients equal PyTorch's, also at kinks and far out",
          "[nn][torch]") {
  const DType dtype = GENERATE(DType::kFloat64, DType::kFloat32);
  for (const auto& [name, value_of] : functions_with_edges()) {
    LayerRun run(name, {3, 2, 4}, dtype);
    check_function(run, name, value_of, run.input(0));
    LayerRun at_edges(name + "_edges", {5}, dtype);
    check_function(at_edges, name + "_edges", value_of, edges(at_edges.tape().context(), dtype));
  }
  for (const auto& [name, value_of] : other_functions()) {
    LayerRun run(name, {3, 2, 4}, dtype);
    check_function(run, name, value_of, run.input(0));
  }
}

TEST_CASE("gradients of functions equal central differences", "[nn]") {
  Context context;
  Parameter x = Scope(context, DType::kFloat64, 1).uniform("x", {4, 3}, 1.5);
  const auto check = [&](const Function& function) {
    CAPTURE(function.name);
    x.clear_grad();
    check_gradients(
        context,
        [&](Tape& tape) { return weighted_sum(tape, function.value_of(tape, tape.watch(x))); },
        {&x});
  };
  for (const Function& function : functions_with_edges()) check(function);
  for (const Function& function : other_functions()) check(function);
}

TEST_CASE("clamp between bounds in the wrong order gives the upper one, as in PyTorch", "[nn]") {
  Context context;
  Tape tape(context);
  Parameter x("x", context.from_host<double>(Doubles{-3, 0, 3}, {3}));
  const Variable y = clamp(tape, tape.watch(x), 2, -1);
  CHECK(context.to_host<double>(y.value()) == Doubles{-1, -1, -1});
  static_cast<void>(tape.backward(sum(tape, y)));
  CHECK(context.to_host<double>(x.grad()) == Doubles{0, 0, 0});
}

TEST_CASE("functions that leave the range of 16 bits are computed in float32", "[nn]") {
  Context context;
  Tape tape(context, Recording::kOn, DType::kFloat16);
  const Tensor x = context.empty({1}, DType::kFloat16);
  ddp::fill(x.buffer(), 300);
  for (const Variable& y : {square(tape, x), sum(tape, square(tape, x)), mean(tape, x)}) {
    CHECK(y.value().dtype() == DType::kFloat32);
  }
  CHECK(context.to_host<float>(square(tape, x).value()).front() == 90000);
  CHECK(tanh(tape, x).value().dtype() == DType::kFloat16);
}

TEST_CASE("the loss of a scalar is that of its only element", "[nn]") {
  Context context;
  const Tensor x = context.from_host<double>(std::vector<double>{3}, {});
  const Tensor target = context.from_host<double>(std::vector<double>{1}, {});
  Tape tape(context, Recording::kOff);
  CHECK(context.to_host<double>(mse_loss(tape, x, target).value()).front() == 4);
}

TEST_CASE("gradients of losses equal central differences", "[nn]") {
  Context context;
  Parameter x = Scope(context, DType::kFloat64, 1).uniform("x", {4, 3}, 1);
  const Tensor target = probabilities(context, {4, 3}, DType::kFloat64);
  const Tensor labels = ddp::test::labels_for(context, 4, 3);
  const std::vector<ddp::test::Loss> losses = {
      [&](Tape& tape) { return mse_loss(tape, tape.watch(x), target); },
      [&](Tape& tape) { return bce_with_logits(tape, tape.watch(x), target, 3); },
      [&](Tape& tape) { return softmax_cross_entropy(tape, tape.watch(x), labels, 0.2); }};
  for (const auto& loss : losses) {
    x.clear_grad();
    check_gradients(context, loss, {&x});
  }
}

TEST_CASE("gradients of two operands equal central differences", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  Parameter a = scope.uniform("a", {2, 3, 2, 2}, 1);
  Parameter b = scope.uniform("b", {2, 3, 2, 2}, 1);
  // Each operand is used twice, so that gradients accumulate.
  check_gradients(context,
                  [&](Tape& tape) {
                    const Variable left = tape.watch(a), right = tape.watch(b);
                    const Variable sum = add(tape, left, add(tape, right, left));
                    return weighted_sum(
                        tape, sigmoid(tape, concat(tape, sum, concat(tape, right, left))));
                  },
                  {&b, &a});
  a.clear_grad();
  b.clear_grad();
  check_gradients(context,
                  [&](Tape& tape) {
                    const Variable left = tape.watch(a), right = tape.watch(b);
                    const Variable product = mul(tape, left, sub(tape, left, right));
                    return weighted_sum(tape, div(tape, product, above_half(tape, right)));
                  },
                  {&b, &a});
}

TEST_CASE("masks overlap where both the logit and the target are positive", "[nn]") {
  Context context;
  const std::vector<float> logits = {2, 1, -1, -3, 0, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<float> target = {1, 0, 1, 0, 0, 1};
  const Tensor counts = mask_overlap(context, context.from_host<float>(logits, {2, 3}),
                                     context.from_host<float>(target, {2, 3}));
  CHECK(context.to_host<std::int64_t>(counts) == std::vector<std::int64_t>{1, 4});
  const Tensor none = Tensor::zeros({0, 3}, DType::kFloat64);
  CHECK(context.to_host<std::int64_t>(mask_overlap(context, none, none)) ==
        std::vector<std::int64_t>{0, 0});
  CHECK(error_of([&] {
          (void)mask_overlap(context, none, Tensor::zeros({3, 0}, DType::kFloat64));
        }) == "[nn] mask_overlap: logits are [0, 3], target [3, 0], expected one shape");
  CHECK_THAT(error_of([&] {
               (void)mask_overlap(context, none, Tensor::zeros({0, 3}, DType::kInt64));
             }),
             Contains("mask_overlap: target is int64[0] on cpu, expected float64[0] on cpu"));
}

TEST_CASE("sigmoid saturates without overflow", "[nn]") {
  Context context;
  Tape tape(context);
  const Tensor x = context.from_host<float>(std::vector<float>{-1000, 0, 1000}, {3});
  CHECK(context.to_host<float>(sigmoid(tape, x).value()) == std::vector<float>{0, 0.5, 1});
}

TEST_CASE("concat appends channels, sample by sample", "[nn]") {
  Context context;
  Tape tape(context);
  const Tensor a = context.from_host<double>(Doubles{1, 2, 5, 6}, {2, 1, 2});
  const Tensor b = context.from_host<double>(Doubles{3, 4, 30, 40, 7, 8, 70, 80}, {2, 2, 2});
  const Tensor joined = concat(tape, a, b).value();
  CHECK(joined.shape() == Shape{2, 3, 2});
  CHECK(context.to_host<double>(joined) == Doubles{1, 2, 3, 4, 30, 40, 5, 6, 7, 8, 70, 80});
}

TEST_CASE("narrow takes rows or channels, and gradients flow back to them alone", "[nn]") {
  Context context;
  Parameter x = Scope(context, DType::kFloat64, 1).uniform("x", {3, 4, 2}, 1);
  {
    Tape tape(context, Recording::kOff);
    const Tensor counted = context.from_host<double>(Doubles{1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
    const auto part = [&](std::size_t dimension, std::size_t start, std::size_t length) {
      return context.to_host<double>(narrow(tape, counted, dimension, start, length).value());
    };
    CHECK(part(0, 1, 1) == Doubles{5, 6, 7, 8});
    CHECK(part(1, 1, 1) == Doubles{3, 4, 7, 8});
    CHECK(part(1, 2, 0).empty());
    CHECK(error_of([&] { (void)part(1, 1, 2); }) ==
          "[nn] narrow: x is [2, 2, 2], which has no 2 from 1 on in dimension 1, which must be 0 "
          "or 1");
    CHECK_THAT(error_of([&] { (void)part(2, 0, 1); }), Contains("in dimension 2"));
  }
  check_gradients(context,
                  [&](Tape& tape) {
                    const Variable all = tape.watch(x);
                    const Variable rows = narrow(tape, all, 0, 1, 2);
                    const Variable channels = narrow(tape, rows, 1, 0, 2);
                    return weighted_sum(tape, mul(tape, channels, narrow(tape, rows, 1, 1, 2)));
                  },
                  {&x});
}

TEST_CASE("every loss and gradient of an empty batch is 0", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  Parameter weight = scope.uniform("weight", {3, 2}, 1), bias = scope.uniform("bias", {3}, 1);
  const Tensor none = Tensor::zeros({0, 3}, DType::kFloat64);
  const Tensor labels = Tensor::zeros({0}, DType::kInt64);
  const std::vector<LossOf> losses = {
      [&](Tape& tape, const Variable& x) { return mse_loss(tape, x, none); },
      [&](Tape& tape, const Variable& x) { return bce_with_logits(tape, x, none, 2); },
      [&](Tape& tape, const Variable& x) { return softmax_cross_entropy(tape, x, labels, 0.1); },
      [&](Tape& tape, const Variable& x) { return sum(tape, x); },
      [&](Tape& tape, const Variable& x) { return mean(tape, row_sums(tape, x)); }};
  for (const LossOf& loss_of : losses) {
    Tape tape(context);
    const Variable x =
        linear(tape, Tensor::zeros({0, 2}, DType::kFloat64), tape.watch(weight), tape.watch(bias));
    const Variable wide = add(tape, x, mul(tape, x, sigmoid(tape, x)));
    const Variable loss = loss_of(tape, wide);
    CHECK(context.to_host<double>(loss.value()) == Doubles{0});
    tape.backward(loss);
    CHECK(context.to_host<double>(weight.grad()) == Doubles(6, 0));
    CHECK(context.to_host<double>(bias.grad()) == Doubles(3, 0));
    weight.clear_grad();
    bias.clear_grad();
  }
}

TEST_CASE("operations with several operands name shapes that do not fit", "[nn]") {
  Context context;
  Tape tape(context);
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::kFloat32); };
  CHECK(error_of([&] {
          static_cast<void>(add(tape, zeros({2, 3}), zeros({3, 2})));
        }) == "[nn] add: a is [2, 3], b [3, 2], expected one shape");
  CHECK(error_of([&] {
          static_cast<void>(div(tape, zeros({2, 3}), zeros({2})));
        }) == "[nn] div: a is [2, 3], b [2], expected one shape");
  CHECK(error_of([&] { static_cast<void>(row_sums(tape, zeros({}))); }) ==
        "[nn] a scalar has no rows");
  CHECK(error_of([&] {
          static_cast<void>(concat(tape, zeros({2, 3, 4}), zeros({2, 3, 5})));
        }) ==
        "[nn] concat: a is [2, 3, 4], b [2, 3, 5], expected shapes that differ in channels alone");
  CHECK(error_of([&] {
          static_cast<void>(mse_loss(tape, zeros({2, 3}), zeros({2})));
        }) == "[nn] mse_loss: x is [2, 3], target [2], expected one shape");
  CHECK(
      error_of([&] {
        static_cast<void>(softmax_cross_entropy(tape, zeros({2, 3}), zeros({2}), 1.5));
      }) ==
      "[kernels] softmax_cross_entropy_forward: the label smoothing is 1.500000, expected 0 to 1");
}

// sigmoid(x) - target, of which most digits would cancel for an x that is far from 0.
TEST_CASE("the slope of BCE with logits is exact for confident predictions", "[nn]") {
  ddp::nn::Context context;
  const double pos_weight = GENERATE(1.0, 2.5);
  const float target = GENERATE(0.0F, 0.25F, 1.0F);
  for (const float x : {-80.0F, -20.0F, -12.0F, -1.0F, 0.0F, 1.0F, 12.0F, 20.0F, 80.0F}) {
    ddp::nn::Parameter logit("x", context.from_host(std::vector<float>{x}, {1}));
    Tape tape(context);
    tape.backward(ddp::nn::bce_with_logits(
        tape, tape.watch(logit), context.from_host(std::vector<float>{target}, {1}), pos_weight));
    const double p = 1 / (1 + std::exp(-double{x})), rest = 1 / (1 + std::exp(double{x}));
    const double slope = (1 - target) * p - pos_weight * target * rest;
    CAPTURE(x, target, pos_weight);
    CHECK(context.to_host<float>(logit.grad())[0] == Approx(slope).epsilon(1e-6).margin(1e-30));
  }
}
