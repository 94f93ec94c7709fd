// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ddp/nn/context.h"
#include "ddp/nn/models/image_sizes.h"
#include "ddp/nn/tape.h"

namespace ddp::bench {

struct Workload {
  std::string model;  // of the factory
  std::size_t batch = 64;
  DType dtype = DType::kFloat32;
};

// What the model is made for here: one channel of 28 x 28 (mlp, lenet5), three of 32 x 32 (convnet)
// or of 64 x 64; ten classes, or for unet one logit a pixel.
[[nodiscard]] nn::ImageSizes sizes_of(std::string_view model);

// A batch that fits the model, always the same one.
struct Batch {
  nn::Tensor images;
  nn::Tensor targets;  // labels, or for unet masks
};

[[nodiscard]] Batch make_batch(nn::Context& context, const Workload& workload);

// Cross-entropy with labels, binary cross-entropy with masks.
[[nodiscard]] nn::Variable loss_of(nn::Tape& tape, const nn::Variable& logits, const Batch& batch);

}  // namespace ddp::bench
