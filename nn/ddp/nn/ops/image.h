// SPDX-License-Identifier: MIT
//
// What operations on images share.
#pragma once

#include <optional>

#include "ddp/kernels/channel_bias.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

// Throws std::invalid_argument unless x is n x channels x height x width.
void require_image(const char* operation, const Shape& x);

// Of an image.
[[nodiscard]] ChannelShape as_channels(const Shape& image);

// Records a convolution's result: with two edges, or with a third one for its bias.
[[nodiscard]] Variable record_convolution(Tape& tape, Tensor y, const std::optional<Variable>& bias,
                                          Edge weight, Edge x);

}  // namespace ddp::nn
