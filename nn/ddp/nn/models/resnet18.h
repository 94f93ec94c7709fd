// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "ddp/nn/module.h"
#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/modules/conv2d.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/modules/sequential.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// Two 3 x 3 convolutions beside a shortcut, which is a 1 x 1 convolution if the sizes change. It is
// torchvision's BasicBlock, with the same names.
class BasicBlock final : public Module {
 public:
  BasicBlock(const Scope& scope, std::size_t in_channels, std::size_t out_channels,
             std::size_t stride);

  Variable forward(Tape& tape, const Variable& input) override;

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  std::optional<Sequential> downsample_;
};

// He et al. 2015: the layers and names of torchvision.models.resnet18, with initial values that are
// PyTorch's defaults for the layers.
class ResNet18 final : public Module {
 public:
  ResNet18(const Scope& scope, std::size_t channels, std::size_t classes);

  // input: n x channels x height x width. Returns n x classes logits.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  std::array<BasicBlock, 8> blocks_;
  Linear fc_;
};

}  // namespace ddp::nn
