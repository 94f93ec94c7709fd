// SPDX-License-Identifier: MIT
//
// The C++ counterpart of tests/reference/make_models_reference.py: the models and batches of which
// models_reference.txt has PyTorch's losses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/models/unet.h"
#include "ddp/nn/ops.h"
#include "support/reference.h"

namespace ddp::test {

// Some rows of a batch.
struct Rows {
  std::size_t first = 0;
  std::size_t count = 0;
};

struct ReferenceModel {
  static constexpr std::uint64_t kSeed = 11;
  static constexpr std::size_t kRows = 8;
  static constexpr std::size_t kSteps = 10;

  std::string name;
  double learning_rate;
  std::size_t side;
  DType dtype;
  double tolerance;

  // In float64 a step takes a second, and an error would show in the first steps.
  [[nodiscard]] bool is_slow() const { return name == "resnet18" && dtype == DType::kFloat64; }
  [[nodiscard]] std::size_t steps() const { return is_slow() ? 4 : kSteps; }

  [[nodiscard]] std::string key(const std::string& step) const {
    return name + " " + std::string(to_string(dtype)) + " " + step;
  }

  [[nodiscard]] std::unique_ptr<nn::Module> make(nn::Context& context) const {
    const nn::Scope scope(context, dtype, kSeed);
    if (name == "unet") return std::make_unique<nn::UNet>(scope, nn::UNetSizes{.features = 8});
    return nn::make_model(name, scope, {.channels = 3, .image = {side, side}});
  }

  // The mean over these rows of the step's batch.
  [[nodiscard]] nn::Variable loss(nn::Tape& tape, nn::Module& model, std::size_t step,
                                  Rows rows = {.first = 0, .count = kRows}) const {
    nn::Context& context = tape.context();
    const nn::Variable logits = model.forward(tape, draw(context, "input", step, 3, rows));
    if (name != "unet") {
      const std::size_t first = step * kRows + rows.first;
      return softmax_cross_entropy(tape, logits,
                                   reference_labels(context, kSeed, first, rows.count));
    }
    const nn::Tensor mask = draw(context, "mask", step, 1, rows);
    std::vector<double> pixels = to_doubles(context, mask);
    for (double& pixel : pixels) pixel = pixel > 0 ? 1 : 0;
    ddp::cast(context.from_host<double>(pixels, mask.shape()).buffer(), mask.buffer());
    return bce_with_logits(tape, logits, mask);
  }

 private:
  // Uniform draws from (-1, 1), rounded to float32.
  [[nodiscard]] nn::Tensor draw(nn::Context& context, const char* stream, std::size_t step,
                                std::size_t channels, Rows rows) const {
    const std::size_t row_elements = channels * side * side;
    const std::size_t first = (step * kRows + rows.first) * row_elements;
    std::vector<float> values(rows.count * row_elements);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double unit = ddp::random_unit(kSeed, ddp::stream_of(stream), first + i);
      values[i] = static_cast<float>(2 * unit - 1);
    }
    const nn::Shape shape = {rows.count, channels, side, side};
    const nn::Tensor drawn = context.from_host<float>(values, shape);
    nn::Tensor result = nn::Tensor::zeros(shape, dtype);
    ddp::cast(drawn.buffer(), result.buffer());
    return result;
  }
};

inline std::vector<ReferenceModel> reference_models() {
  std::vector<ReferenceModel> models;
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::kFloat32, 1e-4), std::pair(DType::kFloat64, 1e-9)}) {
    // On 32 x 32 the last maps of resnet18 are single pixels, whose batch norms magnify rounding.
    const std::size_t resnet_side = dtype == DType::kFloat32 ? 64 : 32;
    // Our own loops sum in another order, which flips some of its ReLUs.
    const bool has_flips = dtype == DType::kFloat32 && DDP_HAVE_OPENBLAS == 0;
    models.insert(models.end(),
                  {{"convnet", 0.01, 32, dtype, tolerance},
                   {"resnet18", 5e-5, resnet_side, dtype, has_flips ? 5e-4 : tolerance},
                   {"unet", 0.05, 32, dtype, tolerance}});
  }
  return models;
}

}  // namespace ddp::test
