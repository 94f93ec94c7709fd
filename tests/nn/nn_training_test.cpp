// SPDX-License-Identifier: MIT
//
// Compares training with real PyTorch; tests/reference/make_mlp_reference.py describes what it ran.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/models/mlp.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/lr_schedule.h"
#include "ddp/nn/optim/sgd.h"
#include "support/run_ranks.h"

namespace {

using namespace ddp::nn;
using ddp::DType;
using ddp::test::error_of;

constexpr std::uint64_t kSeed = 7;
constexpr std::size_t kRows = 5;
constexpr MlpSizes kSizes{12, 8, 6, 4};

// The numbers of the reference by the text before them in their line: {"loss 3", 1.40...}.
std::map<std::string, double> read_reference() {
  std::ifstream file(DDP_REFERENCE_DIR "/mlp_reference.txt");
  std::map<std::string, double> numbers;
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t space = line.rfind(' ');
    numbers[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return numbers;
}

Tensor input_of_step(Context& context, std::size_t step) {
  std::vector<double> values(kRows * kSizes.inputs);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 2 * ddp::random_unit(kSeed, ddp::stream_of("input"), step * values.size() + i) - 1;
  }
  return context.from_host<double>(values, {kRows, kSizes.inputs});
}

Tensor labels_of_step(Context& context, std::size_t step) {
  std::vector<std::int64_t> labels(kRows);
  for (std::size_t row = 0; row < kRows; ++row) {
    labels[row] = static_cast<std::int64_t>((step + row) % kSizes.classes);
  }
  return context.from_host<std::int64_t>(labels, {kRows});
}

}  // namespace

TEST_CASE("ten SGD steps of the MLP equal PyTorch's to 1e-12", "[nn][torch]") {
  const auto reference = read_reference();
  Context context;
  Mlp model(Scope(context, DType::kFloat64, kSeed), kSizes);
  Sgd sgd(context, model.parameters(),
          {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  Tape tape(context);
  for (std::size_t step = 0; step < 10; ++step) {
    const Variable logits = model.forward(tape, input_of_step(context, step));
    const Variable loss = softmax_cross_entropy(tape, logits, labels_of_step(context, step));
    CHECK(context.to_host<double>(loss.value()).front() ==
          Approx(reference.at("loss " + std::to_string(step))).epsilon(1e-13));
    tape.backward(loss);
    sgd.step();
  }
  for (const Parameter* parameter : model.parameters()) {
    const auto values = context.to_host<double>(parameter->value());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string key = "value " + parameter->name() + " " + std::to_string(i);
      CHECK(values[i] == Approx(reference.at(key)).epsilon(1e-12).margin(1e-13));
    }
  }
}

TEST_CASE("cosine and step schedules equal PyTorch's", "[nn][torch]") {
  const auto reference = read_reference();
  const LrSchedule cosine{
      .kind = LrScheduleKind::kCosine, .base = 0.1, .epochs = 8, .minimum = 0.001};
  const LrSchedule step{.kind = LrScheduleKind::kStep,
                        .base = 0.1,
                        .epochs = 8,
                        .step_epochs = 3,
                        .step_factor = 0.5};
  for (int epoch = 0; epoch < 8; ++epoch) {
    CHECK(learning_rate(cosine, epoch) ==
          Approx(reference.at("cosine " + std::to_string(epoch))).epsilon(1e-12));
    CHECK(learning_rate(step, epoch) ==
          Approx(reference.at("step " + std::to_string(epoch))).epsilon(1e-12));
  }
}

TEST_CASE("the warm-up rises evenly to the base rate, then the schedule starts", "[nn]") {
  LrSchedule schedule{.base = 0.4, .epochs = 6, .warmup_epochs = 4};
  CHECK(learning_rate(schedule, 0) == Approx(0.1));
  CHECK(learning_rate(schedule, 3) == Approx(0.4));
  CHECK(learning_rate(schedule, 100) == Approx(0.4));
  schedule.kind = LrScheduleKind::kCosine;
  CHECK(learning_rate(schedule, 4) == Approx(0.4));
  CHECK(learning_rate(schedule, 5) == Approx(0.2));
  CHECK(learning_rate(schedule, 6) == 0);
  CHECK(learning_rate(schedule, 100) == 0);
  CHECK(error_of([&] { static_cast<void>(learning_rate(schedule, -1)); }) ==
        "[nn] learning_rate: epoch -1 of 6 with 4 warm-up epochs and a step of 30 epochs is not "
        "possible");
}

TEST_CASE("a cosine needs its length, and other schedules do not", "[nn]") {
  CHECK(error_of([] { (void)learning_rate({.kind = LrScheduleKind::kCosine, .base = 0.1}, 0); }) ==
        "[nn] learning_rate: a cosine needs `epochs`, at whose end it reaches the minimum");
  CHECK(learning_rate({.base = 0.1, .warmup_epochs = 2}, 0) == 0.05);
  CHECK(learning_rate({.kind = LrScheduleKind::kStep, .base = 0.1}, std::int64_t{1} << 40) == 0);
}

TEST_CASE("a schedule of rates that are no numbers, or negative, is refused", "[nn]") {
  const auto error = [](const LrSchedule& schedule) {
    return error_of([&] { static_cast<void>(learning_rate(schedule, 0)); });
  };
  CHECK(error({.base = std::nan("")}) ==
        "[nn] learning_rate: one of these options is not valid: base nan, step factor 0.100000, "
        "minimum 0.000000");
  CHECK_THAT(error({.base = -1}), Catch::Contains("base -1.000000"));
  CHECK_THAT(error({.step_factor = HUGE_VAL}), Catch::Contains("step factor inf"));
  CHECK_THAT(error({.minimum = std::nan("")}), Catch::Contains("minimum nan"));
}

TEST_CASE("Sgd skips parameters without a gradient and clears the others' gradients", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  Parameter with = scope.uniform("with", {3}, 1), without = scope.uniform("without", {3}, 1);
  const auto old_with = context.to_host<double>(with.value());
  const auto old_without = context.to_host<double>(without.value());
  Parameter* const both[] = {&with, &without};
  Sgd sgd(context, both, {.learning_rate = 0.5, .momentum = 0.9, .weight_decay = 0.1});
  for (double& g : with.grad().buffer().as<double>()) g = 8;
  with.mark_grad_written();
  const double scale = 0.25;
  sgd.step(&scale);
  sgd.step(&scale);  // there are no gradients any more
  const auto new_with = context.to_host<double>(with.value());
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(new_with[i] == Approx(old_with[i] - 0.5 * (2 + 0.1 * old_with[i])).epsilon(1e-14));
  }
  CHECK(context.to_host<double>(without.value()) == old_without);
  const auto state = sgd.state();
  REQUIRE(state.size() == 3);
  CHECK(state[0].name == "with.momentum_buffer");
  CHECK(context.to_host<double>(state[0].value)[1] == Approx(2 + 0.1 * old_with[1]));
  CHECK(context.to_host<double>(state[1].value) == std::vector<double>{0, 0, 0});
}

TEST_CASE("the default MLP has PyTorch's names and shapes in order", "[nn]") {
  Context context;
  const auto model = make_model("mlp", Scope(context, DType::kFloat32, 1));
  std::string text;
  for (const Parameter* parameter : model->parameters()) {
    text += parameter->name() + to_string(parameter->value().shape()) + " ";
  }
  CHECK(text ==
        "fc1.weight[256, 784] fc1.bias[256] fc2.weight[128, 256] fc2.bias[128] fc3.weight[10, 128] "
        "fc3.bias[10] ");
  CHECK(model->buffers().empty());
  CHECK(error_of(
            [&] { static_cast<void>(make_model("resnet", Scope(context, DType::kFloat32, 1))); }) ==
        "[nn] there is no model of images \"resnet\", only: mlp, lenet5, convnet, resnet18, unet");
}

TEST_CASE("two parameters, buffers or children with the same name are refused", "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat32, 1);
  struct Twice final : Module {
    explicit Twice(const Scope& own) : a(own.child("fc"), 2, 2), b(own.child("fc"), 2, 2) {
      register_module(a);
      register_module(b);
    }
    Variable forward(Tape& tape, const Variable& x) override {
      return b.forward(tape, a.forward(tape, x));
    }
    Linear a, b;
  };
  CHECK(error_of([&] { const Twice module(scope.child("net")); }) ==
        "[nn] two parameters are named 'net.fc.weight': give each child a scope of its own, as in "
        "scope.child(\"fc2\"), and register it once");
  struct Buffers final : Module {
    explicit Buffers(const Scope& own) {
      register_buffer(own.buffer("mean", {2}, 0));
      register_buffer(own.buffer("mean", {2}, 0));
    }
    Variable forward(Tape&, const Variable& x) override { return x; }
  };
  CHECK_THAT(error_of([&] { const Buffers module(scope); }),
             Catch::Contains("two buffers are named 'mean'"));
}

TEST_CASE("initial values depend on seed and name, fill U(-b, b), and agree across dtypes",
          "[nn]") {
  Context context;
  const Scope scope(context, DType::kFloat64, 1);
  const auto values_of = [&](const Scope& s, const char* name) {
    return context.to_host<double>(s.uniform(name, {10000}, 0.5).value());
  };
  const auto values = values_of(scope, "a");
  CHECK(values == values_of(scope, "a"));
  CHECK(values != values_of(scope, "b"));
  CHECK(values != values_of(Scope(context, DType::kFloat64, 2), "a"));
  CHECK(std::set<double>(values.begin(), values.end()).size() == values.size());
  double sum = 0, squares = 0;
  for (const double value : values) {
    CHECK(std::abs(value) <= 0.5);
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / 1e4) < 5 * 0.5 / std::sqrt(3e4));  // five standard errors
  CHECK(squares / 1e4 == Approx(0.25 / 3).epsilon(0.05));
  const auto single =
      context.to_host<float>(Scope(context, DType::kFloat32, 1).uniform("a", {10000}, 0.5).value());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(single[i] == static_cast<float>(values[i]));
}
