// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/layer_norm.h"

#include "ddp/nn/ops.h"
#include "ddp/nn/ops/normalisation_checks.h"

namespace ddp::nn {

LayerNorm::LayerNorm(const Scope& scope, std::size_t width, double eps)
    : eps_(eps),
      weight_(scope.constant("weight", {width}, 1)),
      bias_(scope.constant("bias", {width}, 0)) {
  check_eps("LayerNorm", eps);
  register_parameter(weight_);
  register_parameter(bias_);
}

Variable LayerNorm::forward(Tape& tape, const Variable& input) {
  return layer_norm(tape, input, tape.watch(weight_), tape.watch(bias_), eps_);
}

}  // namespace ddp::nn
