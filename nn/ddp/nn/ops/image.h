// SPDX-License-Identifier: MIT
//
// Shared by operations on images.
#pragma once

#include <optional>

#include "ddp/kernels/channel_bias.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

// Throws std::invalid_argument unless x is n x channels x height x width.
void require_image(const char* operation, const Shape& x);

// Converts the shape of an image.
[[nodiscard]] ChannelShape as_channels(const Shape& image);

// Records the result y of a convolution, with edges to its weight, to x and, if there is one, to
// its bias.
[[nodiscard]] Variable record_convolution(Tape& tape, Tensor y, const std::optional<Variable>& bias,
                                          Edge weight, Edge x);

}  // namespace ddp::nn
