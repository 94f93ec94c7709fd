// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/conv_parameters.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace ddp::nn {
namespace {

double default_bound(const Shape& weight) {
  const std::size_t fan_in = weight[1] * weight[2] * weight[3];
  return fan_in == 0 ? 0 : 1 / std::sqrt(static_cast<double>(fan_in));
}

}  // namespace

ConvParameters::ConvParameters(const Scope& scope, const Shape& weight_shape,
                               std::size_t bias_channels)
    : weight(scope.uniform("weight", weight_shape, default_bound(weight_shape))) {
  if (bias_channels == 0) return;
  // A parameter does not move: make_unique could not take it.
  bias.reset(new Parameter(scope.uniform("bias", {bias_channels}, default_bound(weight_shape))));
}

std::optional<Variable> ConvParameters::watch_bias(Tape& tape) {
  if (!bias) return std::nullopt;
  return tape.watch(*bias);
}

std::size_t channels_per_group(const char* module, std::size_t channels, std::size_t groups) {
  if (groups > 0 && channels % groups == 0) return channels / groups;
  throw std::invalid_argument("[nn] " + std::string(module) + ": " + std::to_string(groups) +
                              " groups do not divide " + std::to_string(channels) + " channels");
}

}  // namespace ddp::nn
