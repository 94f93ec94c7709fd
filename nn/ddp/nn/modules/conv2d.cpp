// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/conv2d.h"

#include <cmath>

namespace ddp::nn {
namespace {

double default_bound(std::size_t in_channels, const Size2d& kernel) {
  const std::size_t fan_in = in_channels * kernel.count();
  return fan_in == 0 ? 0 : 1 / std::sqrt(static_cast<double>(fan_in));
}

}  // namespace

Conv2d::Conv2d(const Scope& scope, std::size_t in_channels, std::size_t out_channels,
               const Size2d& kernel, const Conv2dOptions& options)
    : options_(options),
      weight_(scope.uniform("weight", {out_channels, in_channels, kernel.height, kernel.width},
                            default_bound(in_channels, kernel))),
      bias_(scope.uniform("bias", {out_channels}, default_bound(in_channels, kernel))) {
  add(weight_);
  add(bias_);
}

Variable Conv2d::forward(Tape& tape, const Variable& input) {
  return conv2d(tape, input, tape.watch(weight_), tape.watch(bias_), options_);
}

}  // namespace ddp::nn
