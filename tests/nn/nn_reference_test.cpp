// SPDX-License-Identifier: MIT
//
// Compares ten float32 steps of the models with real PyTorch;
// tests/reference/make_training_reference.py describes what it ran and the lines that it printed.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "support/reference.h"

namespace {

using namespace ddp::nn;
using ddp::test::Reference;

constexpr std::uint64_t kSeed = 11;
constexpr std::size_t kRows = 8;
constexpr double kTolerance = 1e-5;  // the largest seen is 3.2e-6, of a gradient

void check_close(const std::string& key, Context& context, const Tensor& tensor,
                 const Reference& reference) {
  CAPTURE(key);
  CHECK(ddp::test::difference(ddp::test::to_doubles(context, tensor), reference.at(key)) <=
        kTolerance);
}

}  // namespace

TEST_CASE("ten float32 steps of mlp and lenet5 equal PyTorch's to 1e-5", "[nn][torch]") {
  const Reference reference =
      ddp::test::read_reference(DDP_REFERENCE_DIR "/training_reference.txt", 3);
  const std::string name = GENERATE("mlp", "lenet5");
  Context context;
  const auto model = make_model(name, Scope(context, ddp::DType::kFloat32, kSeed));
  Sgd sgd(context, model->parameters(),
          {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-4});
  Tape tape(context);
  for (std::size_t step = 0; step < 10; ++step) {
    const std::size_t first = step * kRows;
    const Tensor images =
        ddp::test::reference_images(context, kSeed, first, kRows, ddp::DType::kFloat32);
    const Tensor labels = ddp::test::reference_labels(context, kSeed, first, kRows);
    const Variable loss = softmax_cross_entropy(tape, model->forward(tape, images), labels);
    const std::string step_name = " " + std::to_string(step);
    CHECK(context.to_host<float>(loss.value()).front() ==
          Approx(reference.at(name + " loss" + step_name).front()).epsilon(kTolerance));
    tape.backward(loss);
    for (Parameter* parameter : model->parameters()) {
      check_close(name + " grad" + step_name + " " + parameter->name(), context, parameter->grad(),
                  reference);
    }
    sgd.step();
    for (const Parameter* parameter : model->parameters()) {
      check_close(name + " value" + step_name + " " + parameter->name(), context,
                  parameter->value(), reference);
    }
  }
}
