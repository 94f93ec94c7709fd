// SPDX-License-Identifier: MIT
#include "ddp/nn/models/convnet.h"

#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

// The pooling comes before ReLU, as in LeNet5.
Variable stage(Tape& tape, Conv2d& conv, BatchNorm2d& norm, const Variable& x) {
  return relu(tape, max_pool2d(tape, norm.forward(tape, conv.forward(tape, x)), {2, 2}, {2, 2}));
}

}  // namespace

ConvNet::ConvNet(const Scope& scope, std::size_t channels, std::size_t classes)
    : conv1_(scope.child("conv1"), channels, 32, {3, 3}, {.padding = {1, 1}}, Bias::kNo),
      bn1_(scope.child("bn1"), 32),
      conv2_(scope.child("conv2"), 32, 64, {3, 3}, {.padding = {1, 1}}, Bias::kNo),
      bn2_(scope.child("bn2"), 64),
      conv3_(scope.child("conv3"), 64, 128, {3, 3}, {.padding = {1, 1}}, Bias::kNo),
      bn3_(scope.child("bn3"), 128),
      fc_(scope.child("fc"), 128, classes) {
  register_module(conv1_);
  register_module(bn1_);
  register_module(conv2_);
  register_module(bn2_);
  register_module(conv3_);
  register_module(bn3_);
  register_module(fc_);
}

Variable ConvNet::forward(Tape& tape, const Variable& input) {
  const Variable map1 = stage(tape, conv1_, bn1_, input);
  const Variable map2 = stage(tape, conv2_, bn2_, map1);
  const Variable map3 = stage(tape, conv3_, bn3_, map2);
  return fc_.forward(tape, flatten(tape, adaptive_avg_pool2d(tape, map3, {1, 1})));
}

}  // namespace ddp::nn
