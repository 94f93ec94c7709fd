// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/nn/models/lenet5.h"
#include "ddp/nn/models/mlp.h"
#include "ddp/nn/models/unet.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/optim/weight_average.h"

namespace {

using namespace ddp::nn;

std::unique_ptr<Module> small_mlp(const Scope& scope) {
  return std::make_unique<Mlp>(scope, MlpSizes{12, 8, 6, 4});
}
std::unique_ptr<Module> lenet5(const Scope& scope) { return std::make_unique<LeNet5>(scope); }

struct Case {
  std::unique_ptr<Module> (*make)(const Scope&);
  std::size_t inputs;
};

// The values of all parameters after ten steps on `device`.
std::vector<double> train(const Case& model_case, ddp::Device device) {
  Context context(device);
  const auto model = model_case.make(Scope(context, ddp::DType::kFloat64, 1));
  Sgd sgd(context, model->parameters(), {0.1, 0.9, 0.01});
  std::vector<double> inputs(5 * model_case.inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = 2 * ddp::random_unit(1, 2, i) - 1;
  const Tensor x = context.from_host<double>(inputs, {5, model_case.inputs});
  const Tensor labels =
      context.from_host<std::int64_t>(std::vector<std::int64_t>{0, 1, 2, 3, 0}, {5});
  Tape tape(context);
  for (int step = 0; step < 10; ++step) {
    tape.backward(softmax_cross_entropy(tape, model->forward(tape, x), labels));
    sgd.step();
  }
  std::vector<double> values;
  for (const Parameter* parameter : model->parameters()) {
    const auto part = context.to_host<double>(parameter->value());
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

// The averaged weights after four steps with a loss of many functions.
std::vector<double> train_composed(ddp::Device device) {
  Context context(device);
  Parameter w = Scope(context, ddp::DType::kFloat64, 1).uniform("w", {6, 4}, 1);
  Parameter* const parameters[] = {&w};
  Sgd sgd(context, parameters, {.learning_rate = 0.1});
  WeightAverage average(context, parameters, {.decay = 0.7});
  Tape tape(context);
  for (std::uint64_t step = 0; step < 4; ++step) {
    tape.set_random_key({.step = step});
    const Variable all = tape.watch(w);
    const Variable left = narrow(tape, all, 1, 0, 2), right = narrow(tape, all, 1, 2, 2);
    const Tensor noise = normal(tape, left.shape(), ddp::DType::kFloat64, "noise");
    const Variable noisy = add(tape, left, mul(tape, exp(tape, mul(tape, right, 0.5)), noise));
    const Variable ratio = div(tape, noisy, add(tape, square(tape, sub(tape, left, right)), 1));
    const Variable rows = narrow(tape, row_sums(tape, square(tape, ratio)), 0, 1, 4);
    tape.backward(mean(tape, sqrt(tape, softplus(tape, rows))));
    sgd.step();
    average.update();
  }
  average.swap();
  return context.to_host<double>(w.value());
}

// The logits of a small U-Net, the gradients and the running statistics of one pass.
std::vector<double> run_unet(ddp::Device device) {
  constexpr std::size_t kImages = 2, kChannels = 3, kSide = 16;
  Context context(device);
  UNet model({context, ddp::DType::kFloat64, 1}, {.channels = kChannels, .features = 4});
  const auto draws = [&](std::uint64_t stream, const Shape& shape) {
    std::vector<double> values(shape.count());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = ddp::random_unit(1, stream, i);
    return values;
  };
  const Shape images = {kImages, kChannels, kSide, kSide}, masks = {kImages, 1, kSide, kSide};
  std::vector<double> mask = draws(3, masks);
  for (double& pixel : mask) pixel = pixel > 0.5 ? 1 : 0;
  Tape tape(context);
  const Variable logits = model.forward(tape, context.from_host<double>(draws(2, images), images));
  tape.backward(bce_with_logits(tape, logits, context.from_host<double>(mask, masks)));
  std::vector<double> values = context.to_host<double>(logits.value());
  const auto append = [&](const Tensor& tensor) {
    const auto part = context.to_host<double>(tensor);
    values.insert(values.end(), part.begin(), part.end());
  };
  for (Parameter* parameter : model.parameters()) append(parameter->grad());
  for (const NamedTensor& buffer : model.buffers()) {
    if (buffer.value.dtype() == ddp::DType::kFloat64) append(buffer.value);
  }
  return values;
}

}  // namespace

TEST_CASE("unet has the CPU's logits, gradients and statistics on the GPU", "[gpu][nn]") {
  const auto expected = run_unet(ddp::kCpuDevice), values = run_unet(ddp::cuda_device(0));
  CHECK_THAT(values, Catch::Matchers::Approx(expected).epsilon(1e-9).margin(1e-11));
}

TEST_CASE("losses of one's own and averaged weights are the same on the GPU", "[gpu][nn]") {
  const auto expected = train_composed(ddp::kCpuDevice);
  const auto values = train_composed(ddp::cuda_device(0));
  CHECK_THAT(values, Catch::Matchers::Approx(expected).epsilon(1e-11).margin(1e-12));
}

TEST_CASE("ten steps on the GPU equal ten steps on the CPU in float64", "[gpu][nn]") {
  const Case model_case = GENERATE(Case{small_mlp, 12}, Case{lenet5, 784});
  const auto expected = train(model_case, ddp::kCpuDevice);
  const auto values = train(model_case, ddp::cuda_device(0));
  CHECK_THAT(values, Catch::Matchers::Approx(expected).epsilon(1e-11).margin(1e-12));
}
