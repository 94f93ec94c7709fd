// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/nn/models/image_sizes.h"
#include "ddp/nn/module.h"
#include "ddp/nn/modules/conv2d.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// conv1 (6 channels, 5 x 5, padding 2), pool, conv2 (16 channels, 5 x 5), pool, fc1 (120), fc2
// (84), fc3 (classes); ReLU after all but the last, and pools of 2 x 2 maxima. LeNet-5 of LeCun et
// al. 1998 with today's activation and pooling.
class LeNet5 final : public Module {
 public:
  // Images of 12 x 12 or more.
  explicit LeNet5(const Scope& scope, const ImageSizes& sizes = {});

  // input: n x anything of a sample's elements, such as n x 1 x 28 x 28. Returns n x classes
  // logits.
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
