// SPDX-License-Identifier: MIT
#include "ddp/nn/models/lenet5.h"

#include <stdexcept>
#include <string>

#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

// Pixels of a map after conv2 and its pool.
std::size_t pixels_before_fc1(const Size2d& image) {
  if (image.height < 12 || image.width < 12) {
    throw std::invalid_argument("[nn] LeNet5: images of " + std::to_string(image.height) + " x " +
                                std::to_string(image.width) + ", expected at least 12 x 12");
  }
  return ((image.height / 2 - 4) / 2) * ((image.width / 2 - 4) / 2);
}

// Takes the maximum before ReLU. ReLU is monotonic, so both orders give the same values and
// gradients, but in this one ReLU has only a quarter of the elements to compute.
Variable pool_and_relu(Tape& tape, const Variable& x) {
  return relu(tape, max_pool2d(tape, x, {2, 2}, {2, 2}));
}

}  // namespace

LeNet5::LeNet5(const Scope& scope, const ImageSizes& sizes)
    : sizes_(sizes),
      conv1_(scope.child("conv1"), sizes.channels, 6, {5, 5}, {.padding = {2, 2}}),
      conv2_(scope.child("conv2"), 6, 16, {5, 5}),
      fc1_(scope.child("fc1"), 16 * pixels_before_fc1(sizes.image), 120),
      fc2_(scope.child("fc2"), 120, 84),
      fc3_(scope.child("fc3"), 84, sizes.classes) {
  register_module(conv1_);
  register_module(conv2_);
  register_module(fc1_);
  register_module(fc2_);
  register_module(fc3_);
}

Variable LeNet5::forward(Tape& tape, const Variable& input) {
  const std::size_t rows = as_matrix(input.shape()).rows;
  const Variable image =
      input.reshaped({rows, sizes_.channels, sizes_.image.height, sizes_.image.width});
  const Variable map1 = pool_and_relu(tape, conv1_.forward(tape, image));
  const Variable map2 = pool_and_relu(tape, conv2_.forward(tape, map1));
  const Variable hidden1 = relu(tape, fc1_.forward(tape, flatten(tape, map2)));
  const Variable hidden2 = relu(tape, fc2_.forward(tape, hidden1));
  return fc3_.forward(tape, hidden2);
}

}  // namespace ddp::nn
