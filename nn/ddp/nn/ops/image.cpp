// SPDX-License-Identifier: MIT
#include "ddp/nn/ops/image.h"

#include <stdexcept>
#include <string>

namespace ddp::nn {

void require_image(const char* operation, const Shape& x) {
  if (x.rank() == 4) return;
  throw std::invalid_argument("[nn] " + std::string(operation) + ": x is " + to_string(x) +
                              ", expected [n, channels, height, width]");
}

ChannelShape as_channels(const Shape& image) { return {image[0], image[1], image[2] * image[3]}; }

Variable record_convolution(Tape& tape, Tensor y, const std::optional<Variable>& bias, Edge weight,
                            Edge x) {
  if (!bias) return tape.record(std::move(y), std::move(weight), std::move(x));
  const auto bias_backward = [&context = tape.context(), channels = as_channels(y.shape())](
                                 const Buffer& grad_y, const GradientTarget& target) {
    context.run_any_float(cpu::channel_bias_grad, cu::channel_bias_grad, grad_y, target, channels);
  };
  return tape.record(std::move(y), Edge{*bias, bias_backward}, std::move(weight), std::move(x));
}

}  // namespace ddp::nn
