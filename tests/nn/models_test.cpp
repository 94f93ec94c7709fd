// SPDX-License-Identifier: MIT
//
// Compares the larger models with real PyTorch; tests/reference/make_models_reference.py describes
// what PyTorch ran.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "support/reference_model.h"
#include "support/run_ranks.h"

using Catch::Matchers::Contains;
using ddp::DType;
using ddp::test::error_of;
using ddp::test::ReferenceModel;
using namespace ddp::nn;

TEST_CASE("a shape may come from sizes that are known at run time", "[nn]") {
  const std::vector<std::int64_t> sizes = {3, 32, 48};
  CHECK(Shape(sizes) == Shape{3, 32, 48});
  CHECK(error_of([] {
          (void)Shape(std::vector<std::int64_t>{2, -1});
        }) == "[nn] a shape whose dimension 1 has -1 elements");
  CHECK(error_of([] { (void)Shape(std::vector<std::int64_t>(7, 1)); }) ==
        "[nn] a shape of 7 dimensions, at most 6 are supported");
}

TEST_CASE("the first ten losses of the models equal PyTorch's", "[nn][torch]") {
  const ddp::test::Reference reference =
      ddp::test::read_reference(DDP_REFERENCE_DIR "/models_reference.txt", 3);
  const ReferenceModel subject = GENERATE(from_range(ddp::test::reference_models()));
  Context context;
  const auto model = subject.make(context);
  Sgd sgd(context, model->parameters(), {.learning_rate = subject.learning_rate, .momentum = 0.9});
  const auto check = [&](const Variable& loss, const std::string& step) {
    CAPTURE(subject.key(step));
    CHECK(ddp::test::to_doubles(context, loss.value()).front() ==
          Approx(reference.at(subject.key(step)).front()).epsilon(0).margin(subject.tolerance));
  };
  for (std::size_t step = 0; step < subject.steps(); ++step) {
    Tape tape(context);
    const Variable loss = subject.loss(tape, *model, step);
    check(loss, std::to_string(step));
    tape.backward(loss);
    sgd.step();
  }
  if (subject.is_slow()) return;
  model->train(false);
  Tape tape(context, Recording::kOff);
  check(subject.loss(tape, *model, ReferenceModel::kSteps - 1), "eval");
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
