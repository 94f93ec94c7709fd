// SPDX-License-Identifier: MIT
#include "ddp/nn/models/unet.h"

#include <stdexcept>
#include <vector>

#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

// Levels count from 1, as in the names.
std::size_t features_of(const UNetSizes& sizes, int level) { return sizes.features << (level - 1); }

UNetBlock encoder(const Scope& scope, const UNetSizes& sizes, int level) {
  const std::string number = std::to_string(level);
  const std::size_t in = level == 1 ? sizes.channels : features_of(sizes, level - 1);
  return {scope.child("encoder" + number), "enc" + number, in, features_of(sizes, level)};
}

ConvTranspose2d upconv(const Scope& scope, const UNetSizes& sizes, int level) {
  const std::size_t features = features_of(sizes, level);
  return {scope.child("upconv" + std::to_string(level)),
          2 * features,
          features,
          {2, 2},
          {.stride = {2, 2}}};
}

UNetBlock decoder(const Scope& scope, const UNetSizes& sizes, int level) {
  const std::string number = std::to_string(level);
  const std::size_t features = features_of(sizes, level);
  return {scope.child("decoder" + number), "dec" + number, 2 * features, features};
}

}  // namespace

UNetBlock::UNetBlock(const Scope& scope, const std::string& name, std::size_t in_channels,
                     std::size_t features)
    : conv1_(scope.child(name + "conv1"), in_channels, features, {3, 3}, {.padding = {1, 1}},
             Bias::kNo),
      norm1_(scope.child(name + "norm1"), features),
      conv2_(scope.child(name + "conv2"), features, features, {3, 3}, {.padding = {1, 1}},
             Bias::kNo),
      norm2_(scope.child(name + "norm2"), features) {
  register_module(conv1_);
  register_module(norm1_);
  register_module(conv2_);
  register_module(norm2_);
}

Variable UNetBlock::forward(Tape& tape, const Variable& input) {
  const Variable middle = relu(tape, norm1_.forward(tape, conv1_.forward(tape, input)));
  return relu(tape, norm2_.forward(tape, conv2_.forward(tape, middle)));
}

UNet::UNet(const Scope& scope, const UNetSizes& sizes)
    : encoders_{encoder(scope, sizes, 1), encoder(scope, sizes, 2), encoder(scope, sizes, 3),
                encoder(scope, sizes, 4)},
      bottleneck_(scope.child("bottleneck"), "bottleneck", features_of(sizes, kLevels),
                  features_of(sizes, kLevels + 1)),
      upconvs_{upconv(scope, sizes, 1), upconv(scope, sizes, 2), upconv(scope, sizes, 3),
               upconv(scope, sizes, 4)},
      decoders_{decoder(scope, sizes, 1), decoder(scope, sizes, 2), decoder(scope, sizes, 3),
                decoder(scope, sizes, 4)},
      conv_(scope.child("conv"), sizes.features, sizes.outputs, {1, 1}) {
  for (UNetBlock& each : encoders_) register_module(each);
  register_module(bottleneck_);
  for (std::size_t level = kLevels; level-- > 0;) {
    register_module(upconvs_[level]);
    register_module(decoders_[level]);
  }
  register_module(conv_);
}

Variable UNet::forward(Tape& tape, const Variable& input) {
  const Shape& shape = input.shape();
  if (shape.rank() != 4 || shape[2] % (1 << kLevels) != 0 || shape[3] % (1 << kLevels) != 0) {
    throw std::invalid_argument("[nn] UNet: the input is " + to_string(shape) +
                                ", expected [n, channels, height, width] with multiples of " +
                                std::to_string(1 << kLevels));
  }
  std::vector<Variable> skips;
  Variable x = input;
  for (UNetBlock& each : encoders_) {
    skips.push_back(each.forward(tape, x));
    x = max_pool2d(tape, skips.back(), {2, 2}, {2, 2});
  }
  x = bottleneck_.forward(tape, x);
  for (std::size_t level = kLevels; level-- > 0;) {
    x = concat(tape, upconvs_[level].forward(tape, x), skips[level]);
    x = decoders_[level].forward(tape, x);
  }
  return conv_.forward(tape, x);
}

}  // namespace ddp::nn
