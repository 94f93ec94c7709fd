// SPDX-License-Identifier: MIT
#include "ddp/nn/models/mlp.h"

#include "ddp/nn/ops.h"

namespace ddp::nn {

Mlp::Mlp(const Scope& scope, const MlpSizes& sizes)
    : fc1_(scope.child("fc1"), sizes.inputs, sizes.hidden1),
      fc2_(scope.child("fc2"), sizes.hidden1, sizes.hidden2),
      fc3_(scope.child("fc3"), sizes.hidden2, sizes.classes) {
  register_module(fc1_);
  register_module(fc2_);
  register_module(fc3_);
}

Variable Mlp::forward(Tape& tape, const Variable& input) {
  const auto [rows, columns] = as_matrix(input.shape());
  const Variable hidden1 = relu(tape, fc1_.forward(tape, input.reshaped({rows, columns})));
  const Variable hidden2 = relu(tape, fc2_.forward(tape, hidden1));
  return fc3_.forward(tape, hidden2);
}

}  // namespace ddp::nn
