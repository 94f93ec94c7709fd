// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/nn/module.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

struct MlpSizes {
  std::size_t inputs = 784;
  std::size_t hidden1 = 256;
  std::size_t hidden2 = 128;
  std::size_t classes = 10;
};

// fc1, ReLU, fc2, ReLU, fc3.
class Mlp final : public Module {
 public:
  explicit Mlp(const Scope& scope, const MlpSizes& sizes = {});

  // input: n samples of any shape with `inputs` elements, such as n x 1 x 28 x 28. Returns n x
  // classes logits.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  Linear fc1_;
  Linear fc2_;
  Linear fc3_;
};

}  // namespace ddp::nn
