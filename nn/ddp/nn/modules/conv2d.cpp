// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/conv2d.h"

namespace ddp::nn {

Conv2d::Conv2d(const Scope& scope, std::size_t in_channels, std::size_t out_channels,
               const Size2d& kernel, const Conv2dOptions& options, Bias bias)
    : options_(options),
      parameters_(scope,
                  {out_channels, channels_per_group("Conv2d", in_channels, options.groups),
                   kernel.height, kernel.width},
                  bias == Bias::kYes ? out_channels : 0) {
  register_parameter(parameters_.weight);
  if (parameters_.bias) register_parameter(*parameters_.bias);
}

Variable Conv2d::forward(Tape& tape, const Variable& input) {
  return conv2d(tape, input, tape.watch(parameters_.weight), parameters_.watch_bias(tape),
                options_);
}

}  // namespace ddp::nn
