// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/linear.h"

#include <cmath>

#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

double default_bound(std::size_t in) {
  return in == 0 ? 0 : 1 / std::sqrt(static_cast<double>(in));
}

}  // namespace

Linear::Linear(const Scope& scope, std::size_t in, std::size_t out)
    : weight_(scope.uniform("weight", {out, in}, default_bound(in))),
      bias_(scope.uniform("bias", {out}, default_bound(in))) {
  add(weight_);
  add(bias_);
}

Linear::Linear(const Scope& scope, std::size_t in, std::size_t out, double stddev)
    : weight_(scope.normal("weight", {out, in}, stddev)), bias_(scope.constant("bias", {out}, 0)) {
  add(weight_);
  add(bias_);
}

Variable Linear::forward(Tape& tape, const Variable& input) {
  return linear(tape, input, tape.watch(weight_), tape.watch(bias_));
}

}  // namespace ddp::nn
