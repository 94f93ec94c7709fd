// SPDX-License-Identifier: MIT
//
// Mixed precision and gradient clipping on the GPU, compared with the CPU.
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/models/lenet5.h"
#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/adam.h"
#include "ddp/nn/optim/clip_grad_norm.h"

namespace {

using namespace ddp::nn;
using ddp::Device;
using ddp::DType;

const Device kDevices[] = {ddp::kCpuDevice, ddp::cuda_device(0)};

std::vector<float> draws(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(2 * ddp::random_unit(1, 2, i) - 1);
  }
  return values;
}

std::vector<float> to_floats(Context& context, const Tensor& tensor) {
  const Tensor wide = context.empty(tensor.shape(), DType::kFloat32);
  ddp::cast(tensor.buffer(), wide.buffer(), context.stream());
  return context.to_host<float>(wide);
}

// Returns y and the weight's gradient of a layer with 37 inputs.
std::vector<float> run_layer(Device device, DType narrow) {
  Context context(device);
  Linear layer({context, DType::kFloat32, 1}, 37, 19);
  Tape tape(context, Recording::kOn, narrow);
  const Variable y = layer.forward(tape, context.from_host<float>(draws(33 * 37), {33, 37}));
  std::vector<float> result = to_floats(context, y.value());
  const Tensor labels = context.from_host<std::int64_t>(std::vector<std::int64_t>(33, 7), {33});
  tape.backward(softmax_cross_entropy(tape, y, labels), {.seed = 64});
  const auto grad = context.to_host<float>(layer.parameters()[0]->grad());
  result.insert(result.end(), grad.begin(), grad.end());
  return result;
}

// Returns y and the gradients of a batch norm's input, weight and bias.
std::vector<float> run_norm(Device device, DType narrow, bool trains) {
  Context context(device);
  BatchNorm2d norm({context, DType::kFloat32, 1}, 5);
  norm.train(trains);
  Parameter x("x", context.from_host<float>(draws(4 * 5 * 16), {4, 5, 4, 4}));
  Tape tape(context, Recording::kOn, narrow);
  const Variable y = norm.forward(tape, cast(tape, tape.watch(x), narrow));
  CHECK(y.value().dtype() == narrow);
  std::vector<float> result = to_floats(context, y.value());
  const Tensor target = context.from_host<float>(draws(4 * 5 * 16), y.shape());
  tape.backward(mse_loss(tape, y, target), {.seed = 64});
  for (Parameter* each : {&x, norm.parameters()[0], norm.parameters()[1]}) {
    const auto grad = context.to_host<float>(each->grad());
    result.insert(result.end(), grad.begin(), grad.end());
  }
  return result;
}

std::vector<float> losses(Device device, std::optional<DType> narrow) {
  Context context(device);
  LeNet5 model({context, DType::kFloat32, 1});
  Adam adam(context, model.parameters(), {.learning_rate = 1e-3, .weight_decay = 0.1});
  Tape tape(context, Recording::kOn, narrow);
  const Tensor x = context.from_host<float>(draws(8 * 784), {8, 784});
  const Tensor labels =
      context.from_host<std::int64_t>(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}, {8});
  std::vector<float> losses;
  for (int step = 0; step < 5; ++step) {
    const Variable loss = softmax_cross_entropy(tape, model.forward(tape, x), labels);
    losses.push_back(context.to_host<float>(loss.value()).front());
    tape.backward(loss);
    adam.step(clip_grad_norm(context, model.parameters(), 0.1).grad_scale());
  }
  return losses;
}

}  // namespace

TEST_CASE("batch norms of 16-bit operands on the GPU equal the CPU's up to rounding",
          "[gpu][amp]") {
  const DType narrow = GENERATE(DType::kBFloat16, DType::kFloat16);
  const bool trains = GENERATE(true, false);
  const double rounding = narrow == DType::kFloat16 ? 0x1p-10 : 0x1p-7;
  const auto expected = run_norm(kDevices[0], narrow, trains);
  const auto values = run_norm(kDevices[1], narrow, trains);
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(values[i] == Approx(expected[i]).epsilon(4 * rounding).margin(rounding));
  }
}

TEST_CASE("products of 16-bit operands on the GPU equal the CPU's up to rounding", "[gpu][amp]") {
  const DType narrow = GENERATE(DType::kBFloat16, DType::kFloat16);
  const double rounding = narrow == DType::kFloat16 ? 0x1p-10 : 0x1p-7;
  const auto expected = run_layer(kDevices[0], narrow), values = run_layer(kDevices[1], narrow);
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(values[i] == Approx(expected[i]).epsilon(2 * rounding).margin(rounding));
  }
}

TEST_CASE("lenet5 with Adam and clipping has the CPU's losses, even in 16 bits", "[gpu][amp]") {
  using Narrow = std::optional<DType>;
  const auto narrow = GENERATE(Narrow(), Narrow(DType::kBFloat16), Narrow(DType::kFloat16));
  const auto expected = losses(kDevices[0], narrow), values = losses(kDevices[1], narrow);
  for (std::size_t step = 0; step < expected.size(); ++step) {
    CHECK(values[step] == Approx(expected[step]).epsilon(narrow ? 1e-2 : 1e-3));
  }
}
