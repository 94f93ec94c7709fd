// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/nn/module.h"
#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/modules/conv2d.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// A small network for images of at least 8 x 8: three blocks of convolution (32, 64, 128 channels,
// 3 x 3, padding 1), batch norm, ReLU and 2 x 2 max pooling; then the mean over the image, and fc.
class ConvNet final : public Module {
 public:
  ConvNet(const Scope& scope, std::size_t channels, std::size_t classes);

  // input: n x channels x height x width. Returns n x classes logits.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Conv2d conv3_;
  BatchNorm2d bn3_;
  Linear fc_;
};

}  // namespace ddp::nn
