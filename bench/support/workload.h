// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "ddp/nn/context.h"
#include "ddp/nn/models/image_sizes.h"
#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"
#include "ddp/nn/tape.h"

namespace ddp::bench {

struct Workload {
  std::string model;  // of the factory
  std::size_t batch = 64;
  DType dtype = DType::kFloat32;
  std::optional<DType> amp = {};  // a 16-bit type for mixed precision
  std::size_t image_size = 0;     // height and width; 0: the model's default size
  Float32Precision float32_precision = Float32Precision::kIeee;

  // One channel of 28 x 28 (mlp, lenet5), three channels of 32 x 32 (convnet) or 64 x 64 (others).
  // Ten classes, or one logit per pixel for unet. Of language models all are 0: their samples have
  // the 128 tokens of nn::TextSizes.
  [[nodiscard]] nn::ImageSizes sizes() const;
  // "float32", "tf32", "bfloat16 amp"
  [[nodiscard]] std::string precision() const;
};

// A fixed batch that fits the model.
struct Batch {
  nn::Tensor inputs;   // images or tokens
  nn::Tensor targets;  // labels, or for unet masks
};

[[nodiscard]] std::unique_ptr<nn::Module> make_model(const Workload& workload,
                                                     const nn::Scope& scope);

// The batch of a rank; each rank has other inputs.
[[nodiscard]] Batch make_batch(nn::Context& context, const Workload& workload, int rank = 0);

// Cross-entropy for labels, binary cross-entropy for masks.
[[nodiscard]] nn::Variable loss_of(nn::Tape& tape, const nn::Variable& logits, const Batch& batch);

}  // namespace ddp::bench
