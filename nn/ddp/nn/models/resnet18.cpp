// SPDX-License-Identifier: MIT
#include "ddp/nn/models/resnet18.h"

#include <string>

#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

// Makes block `index` of layer 1 to 4. The first block of each layer except layer 1 doubles the
// channels and halves the image.
BasicBlock block(const Scope& scope, int layer, int index) {
  const std::size_t out = std::size_t{64} << (layer - 1);
  const bool changes_size = layer > 1 && index == 0;
  return {scope.child("layer" + std::to_string(layer)).child(std::to_string(index)),
          changes_size ? out / 2 : out, out, changes_size ? std::size_t{2} : std::size_t{1}};
}

}  // namespace

BasicBlock::BasicBlock(const Scope& scope, std::size_t in_channels, std::size_t out_channels,
                       std::size_t stride)
    : conv1_(scope.child("conv1"), in_channels, out_channels, {3, 3},
             {.stride = {stride, stride}, .padding = {1, 1}}, Bias::kNo),
      bn1_(scope.child("bn1"), out_channels),
      conv2_(scope.child("conv2"), out_channels, out_channels, {3, 3}, {.padding = {1, 1}},
             Bias::kNo),
      bn2_(scope.child("bn2"), out_channels) {
  register_module(conv1_);
  register_module(bn1_);
  register_module(conv2_);
  register_module(bn2_);
  if (stride == 1 && in_channels == out_channels) return;
  downsample_.emplace(scope.child("downsample"));
  downsample_->append<Conv2d>(in_channels, out_channels, Size2d{1, 1},
                              Conv2dOptions{.stride = {stride, stride}}, Bias::kNo);
  downsample_->append<BatchNorm2d>(out_channels);
  register_module(*downsample_);
}

Variable BasicBlock::forward(Tape& tape, const Variable& input) {
  const Variable middle = relu(tape, bn1_.forward(tape, conv1_.forward(tape, input)));
  const Variable sum = bn2_.forward(tape, conv2_.forward(tape, middle));
  const Variable shortcut = downsample_ ? downsample_->forward(tape, input) : input;
  return relu(tape, nn::add(tape, sum, shortcut));
}

ResNet18::ResNet18(const Scope& scope, std::size_t channels, std::size_t classes)
    : conv1_(scope.child("conv1"), channels, 64, {7, 7}, {.stride = {2, 2}, .padding = {3, 3}},
             Bias::kNo),
      bn1_(scope.child("bn1"), 64),
      blocks_{block(scope, 1, 0), block(scope, 1, 1), block(scope, 2, 0), block(scope, 2, 1),
              block(scope, 3, 0), block(scope, 3, 1), block(scope, 4, 0), block(scope, 4, 1)},
      fc_(scope.child("fc"), 512, classes) {
  register_module(conv1_);
  register_module(bn1_);
  for (BasicBlock& each : blocks_) register_module(each);
  register_module(fc_);
}

Variable ResNet18::forward(Tape& tape, const Variable& input) {
  const Variable stem = relu(tape, bn1_.forward(tape, conv1_.forward(tape, input)));
  Variable x = max_pool2d(tape, stem, {3, 3}, {2, 2}, {1, 1});
  for (BasicBlock& each : blocks_) x = each.forward(tape, x);
  return fc_.forward(tape, flatten(tape, adaptive_avg_pool2d(tape, x, {1, 1})));
}

}  // namespace ddp::nn
