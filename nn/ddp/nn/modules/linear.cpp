// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/linear.h"

#include <cmath>

#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

double default_bound(std::size_t in) {
  return in == 0 ? 0 : 1 / std::sqrt(static_cast<double>(in));
}

Parameter make_weight(const Scope& scope, std::size_t in, std::size_t out,
                      const LinearOptions& options) {
  return options.stddev ? scope.normal("weight", {out, in}, *options.stddev)
                        : scope.uniform("weight", {out, in}, default_bound(in));
}

Parameter make_bias(const Scope& scope, std::size_t in, std::size_t out,
                    const LinearOptions& options) {
  return options.stddev ? scope.constant("bias", {out}, 0)
                        : scope.uniform("bias", {out}, default_bound(in));
}

}  // namespace

Linear::Linear(const Scope& scope, std::size_t in, std::size_t out, const LinearOptions& options)
    : weight_(make_weight(scope, in, out, options)) {
  register_parameter(weight_);
  if (options.bias == Bias::kNo) return;
  // A parameter does not move: make_unique could not take it.
  bias_.reset(new Parameter(make_bias(scope, in, out, options)));
  register_parameter(*bias_);
}

Variable Linear::forward(Tape& tape, const Variable& input) {
  if (!bias_) return linear(tape, input, tape.watch(weight_));
  return linear(tape, input, tape.watch(weight_), tape.watch(*bias_));
}

}  // namespace ddp::nn
