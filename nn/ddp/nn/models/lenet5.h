// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/nn/models/image_sizes.h"
#include "ddp/nn/module.h"
#include "ddp/nn/modules/conv2d.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// conv1 (6 channels, 5 x 5, padding 2), pool, conv2 (16 channels, 5 x 5), pool, fc1 (120), fc2
// (84), fc3 (classes), with 2 x 2 max pooling and a ReLU after each layer but the last: LeNet-5
// (LeCun et al. 1998) with today's activation and pooling.
class LeNet5 final : public Module {
 public:
  // Throws std::invalid_argument if images are smaller than 12 x 12.
  explicit LeNet5(const Scope& scope, const ImageSizes& sizes = {});

  // input: n samples of any shape with the right number of elements, such as n x 1 x 28 x 28.
  // Returns n x classes logits.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  ImageSizes sizes_;
  Conv2d conv1_;
  Conv2d conv2_;
  Linear fc1_;
  Linear fc2_;
  Linear fc3_;
};

}  // namespace ddp::nn
