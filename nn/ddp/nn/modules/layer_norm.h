// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// torch.nn.LayerNorm over the last dimension, with weight (initially ones) and bias (zeros).
class LayerNorm final : public Module {
 public:
  // std::invalid_argument unless eps is finite and 0 or above.
  LayerNorm(const Scope& scope, std::size_t width, double eps = 1e-5);

  // input: ... x width.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  double eps_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace ddp::nn
