// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/conv_transpose2d.h"

namespace ddp::nn {

ConvTranspose2d::ConvTranspose2d(const Scope& scope, std::size_t in_channels,
                                 std::size_t out_channels, const Size2d& kernel,
                                 const ConvTranspose2dOptions& options, Bias bias)
    : options_(options),
      parameters_(scope,
                  {in_channels, channels_per_group("ConvTranspose2d", out_channels, options.groups),
                   kernel.height, kernel.width},
                  bias == Bias::kYes ? out_channels : 0) {
  register_parameter(parameters_.weight);
  if (parameters_.bias) register_parameter(*parameters_.bias);
}

Variable ConvTranspose2d::forward(Tape& tape, const Variable& input) {
  return conv_transpose2d(tape, input, tape.watch(parameters_.weight), parameters_.watch_bias(tape),
                          options_);
}

}  // namespace ddp::nn
