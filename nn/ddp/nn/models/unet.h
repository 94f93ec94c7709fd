// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "ddp/nn/module.h"
#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/modules/conv2d.h"
#include "ddp/nn/modules/conv_transpose2d.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

struct UNetSizes {
  std::size_t channels = 3;   // of an image
  std::size_t outputs = 1;    // logits per pixel
  std::size_t features = 32;  // of the first level; they double at each level
};

// Convolution (3 x 3, padding 1), batch norm and ReLU, twice. `name` is the prefix of the names:
// "enc1" gives "enc1conv1.weight".
class UNetBlock final : public Module {
 public:
  UNetBlock(const Scope& scope, const std::string& name, std::size_t in_channels,
            std::size_t features);

  Variable forward(Tape& tape, const Variable& input) override;

 private:
  Conv2d conv1_;
  BatchNorm2d norm1_;
  Conv2d conv2_;
  BatchNorm2d norm2_;
};

// Segments images: Ronneberger et al. 2015 with padding and batch norms. Layers and names are those
// of mateuszbuda/brain-segmentation-pytorch on torch.hub, without the final sigmoid: forward
// returns logits, for bce_with_logits().
class UNet final : public Module {
 public:
  explicit UNet(const Scope& scope, const UNetSizes& sizes = {});

  // input: n x channels x height x width, both multiples of 16 (std::invalid_argument). Returns
  // n x outputs x height x width.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  static constexpr std::size_t kLevels = 4;

  std::array<UNetBlock, kLevels> encoders_;
  UNetBlock bottleneck_;
  std::array<ConvTranspose2d, kLevels> upconvs_;  // by level, like the decoders
  std::array<UNetBlock, kLevels> decoders_;
  Conv2d conv_;
};

}  // namespace ddp::nn
