// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/nn/models/mlp.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/adam.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/optim/weight_average.h"
#include "ddp/nn/scope.h"
#include "support/run_ranks.h"
#include "support/stderr_capture.h"

namespace {

using namespace ddp::nn;
using ddp::buffer_of;
using ddp::DType;
using ddp::test::error_of;
using Doubles = std::vector<double>;
using Names = std::vector<std::string>;

Names names_of(std::span<Parameter* const> parameters) {
  Names names;
  for (const Parameter* parameter : parameters) names.push_back(parameter->name());
  return names;
}

Doubles grad_of(Parameter& parameter) {
  const auto grad = parameter.grad().buffer().as<double>();
  return {grad.begin(), grad.end()};
}

// Two layers that may share parameters, on a batch of 3 x 4.
struct Fixture {
  Context context;
  Scope scope{context, DType::kFloat64, 5};
  Linear first{scope.child("first"), 4, 4};
  Linear second{scope.child("second"), 4, 4};
  Tensor x = scope.uniform("x", {3, 4}, 1).value();
  Tensor labels = context.from_host<std::int64_t>(std::vector<std::int64_t>{2, 0, 1}, {3});

  Variable loss(Tape& tape, Linear& a, Linear& b) {
    return softmax_cross_entropy(tape, b.forward(tape, relu(tape, a.forward(tape, x))), labels);
  }
};

}  // namespace

TEST_CASE("parameters are reported in reverse order of use, each when its gradient is final",
          "[nn]") {
  Fixture f;
  Tape tape(f.context);
  Names order;
  std::vector<Doubles> at_call;
  const BackwardOptions options{.on_grad_ready = [&](Parameter& parameter) {
    order.push_back(parameter.name());
    at_call.push_back(grad_of(parameter));
    CHECK(parameter.has_grad());
  }};
  const auto reached = tape.backward(f.loss(tape, f.first, f.second), options);
  CHECK(order == Names{"second.bias", "second.weight", "first.bias", "first.weight"});
  CHECK(names_of(reached) == order);
  for (std::size_t i = 0; i < reached.size(); ++i) CHECK(grad_of(*reached[i]) == at_call[i]);
}

TEST_CASE("a parameter used twice is reported once, after its last contribution", "[nn]") {
  Fixture f;
  Tape tape(f.context);
  std::vector<Doubles> at_call;
  const BackwardOptions options{
      .on_grad_ready = [&](Parameter& parameter) { at_call.push_back(grad_of(parameter)); }};
  const auto reached = tape.backward(f.loss(tape, f.first, f.first), options);
  CHECK(names_of(reached) == Names{"first.bias", "first.weight"});
  REQUIRE(at_call.size() == 2);
  CHECK(grad_of(*reached[0]) == at_call[0]);
  CHECK(grad_of(*reached[1]) == at_call[1]);
}

TEST_CASE("a parameter is reported even if one of its uses does not lead to the loss", "[nn]") {
  Fixture f;
  Tape tape(f.context);
  const Variable loss = f.loss(tape, f.first, f.second);
  const Variable side_branch = f.second.forward(tape, f.x);
  CHECK(names_of(tape.backward(loss)) ==
        Names{"second.bias", "second.weight", "first.bias", "first.weight"});
}

TEST_CASE("a parameter that backward does not reach keeps its memory and its flag", "[nn]") {
  Fixture f;
  Tape tape(f.context);
  Parameter& unused = *f.second.parameters()[0];
  unused.grad().buffer().as<double>()[0] = 42;
  const Variable side_branch = f.second.forward(tape, f.x);
  const Variable loss = softmax_cross_entropy(tape, f.first.forward(tape, f.x), f.labels);
  CHECK(names_of(tape.backward(loss)) == Names{"first.bias", "first.weight"});
  CHECK_FALSE(unused.has_grad());
  CHECK(grad_of(unused)[0] == 42);
}

TEST_CASE("a frozen parameter is a constant, through which gradients flow to others", "[nn]") {
  Fixture f;
  Tape tape(f.context);
  const auto backward = [&](bool trains_first, bool trains_second) {
    for (Linear* layer : {&f.first, &f.second}) {
      for (Parameter* parameter : layer->parameters()) parameter->clear_grad();
    }
    f.first.set_requires_grad(trains_first);
    f.second.set_requires_grad(trains_second);
    return names_of(tape.backward(f.loss(tape, f.first, f.second)));
  };
  CHECK(backward(true, true).size() == 4);
  const Doubles gradient = grad_of(*f.first.parameters()[0]);
  CHECK(backward(true, false) == Names{"first.bias", "first.weight"});
  CHECK(grad_of(*f.first.parameters()[0]) == gradient);
  CHECK(backward(false, true) == Names{"second.bias", "second.weight"});
  CHECK_FALSE(f.first.parameters()[0]->has_grad());
  CHECK_THAT(error_of([&] { static_cast<void>(backward(false, false)); }),
             Catch::Contains("all are frozen"));
  CHECK(backward(true, true).size() == 4);
}

TEST_CASE("the first backward overwrites gradients, the next one adds until clear_grad", "[nn]") {
  Fixture f;
  Tape tape(f.context);
  Parameter& weight = *f.first.parameters()[0];
  for (double& g : weight.grad().buffer().as<double>()) g = std::nan("");
  tape.backward(f.loss(tape, f.first, f.second));
  const Doubles once = grad_of(weight);
  tape.backward(f.loss(tape, f.first, f.second), {.seed = 2});
  Doubles thrice = once;
  for (double& g : thrice) g *= 3;
  CHECK_THAT(grad_of(weight), Catch::Matchers::Approx(thrice).epsilon(1e-14));
  weight.clear_grad();
  tape.backward(f.loss(tape, f.first, f.second));
  CHECK(grad_of(weight) == once);
}

// The gradients would be made of the new weights and of activations of the old ones.
TEST_CASE("a backward pass through parameters that have changed since is refused", "[nn]") {
  Fixture f;
  std::vector<Parameter*> both(f.first.parameters().begin(), f.first.parameters().end());
  both.insert(both.end(), f.second.parameters().begin(), f.second.parameters().end());
  Sgd sgd(f.context, both, {.learning_rate = 0.1});
  Adam adam(f.context, both, {});
  WeightAverage average(f.context, both);
  average.update();
  const auto backward_after = [&](auto change) {
    Tape tape(f.context), other(f.context);
    const Variable loss = f.loss(tape, f.first, f.second);
    other.backward(f.loss(other, f.first, f.second));
    change();
    return error_of([&] { tape.backward(loss); });
  };
  const std::string text = "' has changed since the forward pass (an optimizer's step?)";
  CHECK_THAT(backward_after([&] { sgd.step(); }), Catch::Contains(text));
  CHECK_THAT(backward_after([&] { adam.step(); }), Catch::Contains(text));
  CHECK_THAT(backward_after([&] { average.swap(); }), Catch::Contains(text));
  CHECK(backward_after([] {}).empty());

  Tape tape(f.context);
  const Variable old = f.loss(tape, f.first, f.second);
  sgd.step();
  CHECK_THAT(error_of([&] { tape.backward(old); }), Catch::Contains(text));
  const Variable again = f.loss(tape, f.first, f.second);  // of the new values only
  CHECK(tape.backward(again).size() == 4);
}

TEST_CASE("backward writes straight into a bound bucket, and training moves bound values", "[nn]") {
  Fixture f;
  Fixture plain;
  Doubles bucket(8 * 4 + 8, std::nan("")), values(bucket.size());
  std::size_t offset = 0;
  for (Linear* layer : {&f.first, &f.second}) {
    for (Parameter* parameter : layer->parameters()) {
      const std::size_t count = parameter->value().count();
      parameter->bind_grad(buffer_of(bucket).slice(offset, count));
      parameter->bind_value(buffer_of(values).slice(offset, count));
      offset += count;
    }
  }
  Tape tape(f.context), plain_tape(plain.context);
  tape.backward(f.loss(tape, f.first, f.second));
  plain_tape.backward(plain.loss(plain_tape, plain.first, plain.second));
  Doubles expected;
  for (Linear* layer : {&plain.first, &plain.second}) {
    for (Parameter* parameter : layer->parameters()) {
      const Doubles grad = grad_of(*parameter);
      expected.insert(expected.end(), grad.begin(), grad.end());
    }
  }
  CHECK(bucket == expected);
  CHECK(f.first.parameters()[0]->value().buffer().data == values.data());
}

TEST_CASE("binding keeps values and gradients, and refuses memory that does not fit", "[nn]") {
  Fixture f;
  Parameter& bias = *f.first.parameters()[1];
  const Doubles before = f.context.to_host<double>(bias.value());
  bias.grad().buffer().as<double>()[3] = 7;
  Doubles value_memory(4), grad_memory(4), too_long(5);
  bias.bind_value(buffer_of(value_memory));
  bias.bind_grad(buffer_of(grad_memory));
  CHECK(value_memory == before);
  CHECK(grad_memory == Doubles{0, 0, 0, 7});
  CHECK(error_of([&] { bias.bind_grad(buffer_of(too_long)); }) ==
        "[nn] binding the gradient of first.bias: got float64[5] on cpu, expected float64[4] on "
        "cpu");
}

TEST_CASE("steps of equal shape allocate nothing after the first", "[nn]") {
  Fixture f;
  Tape tape(f.context);
  const auto step = [&] { tape.backward(f.loss(tape, f.first, f.second)); };
  step();
  const std::size_t allocations = f.context.pool().allocations();
  step();
  step();
  CHECK(f.context.pool().allocations() == allocations);
}

TEST_CASE("steps with changing shapes do not need more and more memory", "[nn]") {
  Fixture f;
  std::size_t first_bytes = 0;
  for (std::size_t rows = 1000; rows > 500; --rows) {  // the largest batch comes first
    Tape tape(f.context);
    const Variable x = Tensor::zeros({rows, 4}, DType::kFloat64);
    const Tensor labels = Tensor::zeros({rows}, DType::kInt64);
    tape.backward(softmax_cross_entropy(tape, relu(tape, f.first.forward(tape, x)), labels));
    if (first_bytes == 0) first_bytes = f.context.pool().size_bytes();
    REQUIRE(f.context.pool().size_bytes() <= 4 * first_bytes);
  }
}

TEST_CASE("a tensor outlives the context whose pool it came from", "[nn]") {
  Tensor survivor;
  {
    Context context;
    survivor = context.empty({4}, DType::kFloat64);
  }
  for (double& value : survivor.buffer().as<double>()) value = 1;
  CHECK(survivor.buffer().as<double>()[3] == 1);
}

TEST_CASE("a tensor or variable that was moved from is empty", "[nn]") {
  const auto expect_moved = [](const Tensor& from, const Tensor& to) {
    CHECK(from.buffer().data == nullptr);
    CHECK(from.count() == 0);
    CHECK(from.shape() == Shape{0});
    CHECK(to.count() == 6);
    CHECK(to.shape() == Shape{2, 3});
  };
  Tensor first = Tensor::zeros({2, 3}, DType::kFloat32);
  const Tensor copy = first;
  Tensor second = std::move(first);
  expect_moved(first, second);
  Tensor third = Tensor::zeros({5}, DType::kFloat32);
  third = std::move(second);
  expect_moved(second, third);
  CHECK(third.buffer().data == copy.buffer().data);
  Variable variable(std::move(third));
  expect_moved(third, variable.value());
  const Variable taken = std::move(variable);
  expect_moved(variable.value(), taken.value());
}

TEST_CASE("a validation on a recording tape causes a warning that nothing is freed", "[nn]") {
  const auto output_of = [](Recording recording, int batches, bool trains) {
    Fixture f;
    Tape tape(f.context, recording);
    const ddp::test::StderrCapture capture;
    for (int i = 0; i < batches; ++i) {
      const Variable loss = f.loss(tape, f.first, f.second);
      if (trains) tape.backward(loss);
    }
    return capture.text();
  };
  const std::string text = output_of(Recording::kOn, 1000, false);
  CHECK_THAT(text, Catch::Contains("' 100 times without a backward()"));
  CHECK(std::ranges::count(text, '\n') == 1);
  CHECK(output_of(Recording::kOff, 1000, false).empty());
  CHECK(output_of(Recording::kOn, 1000, true).empty());
}

TEST_CASE("a backward that throws leaves no part of a gradient to the next one", "[nn]") {
  Fixture f;
  Tape tape(f.context);
  tape.backward(f.loss(tape, f.first, f.second));
  const Doubles right = grad_of(*f.second.parameters().front());
  const std::vector<Parameter*> parameters = {f.first.parameters().front(),
                                              f.second.parameters().front()};
  for (Parameter* parameter : parameters) parameter->clear_grad();
  const BackwardOptions options{
      .on_grad_ready = [](Parameter&) { throw std::runtime_error("no memory"); }};
  CHECK_THROWS_AS(tape.backward(f.loss(tape, f.first, f.second), options), std::runtime_error);
  for (Parameter* parameter : parameters) CHECK_FALSE(parameter->has_grad());
  tape.backward(f.loss(tape, f.first, f.second));
  CHECK(grad_of(*f.second.parameters().front()) == right);
}

TEST_CASE("a variable of another tape is refused, whatever its slot there", "[nn]") {
  Fixture f;
  Tape tape(f.context), other(f.context);
  const Variable own = relu(tape, f.first.forward(tape, f.x));
  const Variable foreign = relu(other, f.first.forward(other, f.x));
  CHECK_THAT(error_of([&] { (void)add(tape, own, foreign); }),
             Catch::Contains("is not on this tape: it belongs to another"));
  CHECK_THAT(error_of([&] { tape.backward(mean(other, foreign)); }),
             Catch::Contains("is not on this tape: it belongs to another"));
}

TEST_CASE("a variable of a tape that was in the same place is refused", "[nn]") {
  Context context;
  Parameter w("w", Tensor::zeros({2}, DType::kFloat64));
  std::optional<Tape> tape;
  tape.emplace(context);
  const Variable old = relu(*tape, tape->watch(w));
  tape.emplace(context);
  (void)relu(*tape, tape->watch(w));  // has the slot that the old one had
  CHECK_THAT(error_of([&] { (void)relu(*tape, old); }),
             Catch::Contains("is not on this tape: it belongs to another"));
}

TEST_CASE("misuse of a tape is a logic error that describes the mistake", "[nn]") {
  Fixture f;
  Tape tape(f.context);
  const Variable hidden = f.first.forward(tape, f.x);
  const Variable loss = softmax_cross_entropy(tape, hidden, f.labels);
  tape.backward(loss);
  const std::string stale = "is not on this tape: it belongs to another, or backward has run since";
  CHECK_THAT(error_of([&] { tape.backward(loss); }), Catch::Contains(stale));
  const Variable next = f.loss(tape, f.first, f.second);  // reuses the slots
  CHECK_THAT(error_of([&] { static_cast<void>(f.second.forward(tape, hidden)); }),
             Catch::Contains(stale));
  CHECK(tape.backward(next).size() == 4);
  CHECK(error_of([&] { tape.backward(f.first.forward(tape, f.x)); }) ==
        "[nn] backward: the loss has the shape [3, 4], expected one element");
  Parameter scalar = Scope(f.context, DType::kFloat64, 1).uniform("scalar", {1}, 1);
  CHECK(error_of([&] { tape.backward(tape.watch(scalar).reshaped({})); }) ==
        "[nn] backward: the loss is the parameter 'scalar' itself, expected the result of an "
        "operation");
  Tape inference(f.context, Recording::kOff);
  CHECK(error_of([&] { inference.backward(f.loss(inference, f.first, f.second)); }) ==
        "[nn] backward: the loss does not depend on any parameter: all are frozen "
        "(set_requires_grad(false)), or the tape does not record (Recording::kOff)");
}
