// SPDX-License-Identifier: MIT
//
// Compares the larger models with real PyTorch; tests/reference/make_models_reference.py describes
// what PyTorch ran.
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/models/unet.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/random.h"
#include "support/reference.h"
#include "support/run_ranks.h"

using Catch::Matchers::Contains;
using ddp::DType;
using ddp::test::error_of;
using namespace ddp::nn;

namespace {

constexpr std::uint64_t kSeed = 11;
constexpr std::size_t kRows = 8;
constexpr std::size_t kSteps = 10;

struct Subject {
  std::string name;
  double learning_rate;
  std::size_t side;
  DType dtype;
  double tolerance;

  [[nodiscard]] std::unique_ptr<Module> make(Context& context) const {
    const Scope scope(context, dtype, kSeed);
    if (name == "unet") return std::make_unique<UNet>(scope, UNetSizes{.features = 8});
    return make_model(name, scope, {.channels = 3, .image = {side, side}});
  }

  // Uniform draws from (-1, 1), rounded to float32.
  [[nodiscard]] Tensor draw(Context& context, const char* stream, std::size_t step,
                            const Shape& shape) const {
    std::vector<float> values(shape.count());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double unit = random_unit(kSeed, stream_of(stream), step * values.size() + i);
      values[i] = static_cast<float>(2 * unit - 1);
    }
    const Tensor drawn = context.from_host<float>(values, shape);
    Tensor result = Tensor::zeros(shape, dtype);
    ddp::cast(drawn.buffer(), result.buffer());
    return result;
  }

  [[nodiscard]] Variable loss(Tape& tape, Module& model, std::size_t step) const {
    Context& context = tape.context();
    const Variable logits =
        model.forward(tape, draw(context, "input", step, {kRows, 3, side, side}));
    if (name != "unet") {
      const std::size_t first = step * kRows;
      return softmax_cross_entropy(tape, logits,
                                   ddp::test::reference_labels(context, kSeed, first, kRows));
    }
    const Tensor mask = draw(context, "mask", step, {kRows, 1, side, side});
    std::vector<double> pixels = ddp::test::to_doubles(context, mask);
    for (double& pixel : pixels) pixel = pixel > 0 ? 1 : 0;
    ddp::cast(context.from_host<double>(pixels, mask.shape()).buffer(), mask.buffer());
    return bce_with_logits(tape, logits, mask);
  }
};

}  // namespace

TEST_CASE("the first ten losses of the models equal PyTorch's", "[nn][torch]") {
  const ddp::test::Reference reference =
      ddp::test::read_reference(DDP_REFERENCE_DIR "/models_reference.txt", 3);
  const auto [dtype, tolerance] =
      GENERATE(std::pair(DType::kFloat32, 1e-4), std::pair(DType::kFloat64, 1e-9));
  // On 32 x 32 the last maps of resnet18 are single pixels, whose batch norms magnify rounding.
  const std::size_t resnet_side = dtype == DType::kFloat32 ? 64 : 32;
  // Our own loops sum in another order, which flips some of its ReLUs.
  const bool has_flips = dtype == DType::kFloat32 && DDP_HAVE_OPENBLAS == 0;
  const double resnet_tolerance = has_flips ? 5e-4 : tolerance;
  const Subject subject =
      GENERATE_COPY(Subject{"convnet", 0.01, 32, dtype, tolerance},
                    Subject{"resnet18", 5e-5, resnet_side, dtype, resnet_tolerance},
                    Subject{"unet", 0.05, 32, dtype, tolerance});
  Context context;
  const auto model = subject.make(context);
  Sgd sgd(context, model->parameters(), {.learning_rate = subject.learning_rate, .momentum = 0.9});
  const auto check = [&](const Variable& loss, const std::string& step) {
    const std::string key = subject.name + " " + std::string(to_string(dtype)) + " " + step;
    CAPTURE(key);
    CHECK(ddp::test::to_doubles(context, loss.value()).front() ==
          Approx(reference.at(key).front()).epsilon(0).margin(subject.tolerance));
  };
  // In float64 a step takes a second, and an error would show in the first steps.
  const bool is_slow = subject.name == "resnet18" && dtype == DType::kFloat64;
  for (std::size_t step = 0; step < (is_slow ? 4 : kSteps); ++step) {
    Tape tape(context);
    const Variable loss = subject.loss(tape, *model, step);
    check(loss, std::to_string(step));
    tape.backward(loss);
    sgd.step();
  }
  if (is_slow) return;
  model->train(false);
  Tape tape(context, Recording::kOff);
  check(subject.loss(tape, *model, kSteps - 1), "eval");
}

TEST_CASE("the parameters of models have PyTorch's names", "[nn]") {
  Context context;
  const auto names_of = [&](const char* name) {
    std::string names;
    for (const NamedTensor& tensor :
         make_model(name, {context, DType::kFloat32, 0}, {.channels = 3})->state_dict()) {
      names += tensor.name + " ";
    }
    return names;
  };
  CHECK_THAT(names_of("resnet18"), Contains("layer2.0.downsample.0.weight ") &&
                                       Contains("layer2.0.downsample.1.running_var ") &&
                                       Contains("layer4.1.bn2.num_batches_tracked ") &&
                                       Contains("fc.bias "));
  CHECK_THAT(names_of("unet"), Contains("encoder1.enc1conv1.weight ") &&
                                   Contains("bottleneck.bottlenecknorm2.bias ") &&
                                   Contains("upconv4.weight ") && Contains("decoder1.dec1conv2"));
}

TEST_CASE("models fit the size of the images", "[nn]") {
  Context context;
  const std::size_t channels = GENERATE(1, 3);
  const ImageSizes sizes{.channels = channels, .image = {32, 48}, .classes = 7};
  for (const char* name : {"mlp", "lenet5", "convnet", "resnet18"}) {
    CAPTURE(name, channels);
    const auto model = make_model(name, {context, DType::kFloat32, 0}, sizes);
    Tape tape(context, Recording::kOff);
    const Variable logits =
        model->forward(tape, Tensor::zeros({2, channels, 32, 48}, DType::kFloat32));
    CHECK(logits.shape() == Shape{2, 7});
  }
  const auto unet = make_model("unet", {context, DType::kFloat32, 0}, sizes);
  Tape tape(context, Recording::kOff);
  const Variable map = unet->forward(tape, Tensor::zeros({2, channels, 32, 48}, DType::kFloat32));
  CHECK(map.shape() == Shape{2, 7, 32, 48});
  CHECK_THAT(error_of([&] {
               (void)unet->forward(tape, Tensor::zeros({2, channels, 32, 40}, DType::kFloat32));
             }),
             Contains("expected [n, channels, height, width] with multiples of 16"));
}

TEST_CASE("LeNet5 refuses images that its pools leave nothing of", "[nn]") {
  Context context;
  const auto make = [&](std::size_t height, std::size_t width) {
    const ImageSizes sizes{.image = {height, width}};
    (void)make_model("lenet5", {context, DType::kFloat32, 0}, sizes);
  };
  CHECK_NOTHROW(make(12, 12));
  CHECK_THAT(error_of([&] { make(12, 11); }), Contains("12 x 11, expected at least 12 x 12"));
  CHECK_THAT(error_of([&] { make(7, 28); }), Contains("7 x 28, expected at least 12 x 12"));
}
