// SPDX-License-Identifier: MIT
//
// The parameters that convolution modules share.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "ddp/nn/modules/bias.h"
#include "ddp/nn/scope.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

// PyTorch's default initialisation: weight and bias are drawn from U(-b, b) with b =
// 1/sqrt(fan_in), which for the weight is kaiming_uniform(a = sqrt(5)). As in PyTorch, fan_in is
// the weight's second dimension times the kernel's pixels, also for transposed convolutions.
struct ConvParameters {
  // Without a bias if it has no channels.
  ConvParameters(const Scope& scope, const Shape& weight_shape, std::size_t bias_channels);

  [[nodiscard]] std::optional<Variable> watch_bias(Tape& tape);

  Parameter weight;
  std::unique_ptr<Parameter> bias;  // null if there is none
};

// channels / groups; throws std::invalid_argument that names `module` if that leaves a remainder.
[[nodiscard]] std::size_t channels_per_group(const char* module, std::size_t channels,
                                             std::size_t groups);

}  // namespace ddp::nn
