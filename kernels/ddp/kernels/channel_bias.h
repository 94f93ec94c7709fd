// SPDX-License-Identifier: MIT
//
// The bias of a convolution: one number for each channel.
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp::cpu {

// y[n, c, p] += bias[c].
void channel_bias_add(const Buffer& y, const Buffer& bias, const ChannelShape& shape);
// grad_bias[c] = sum over n, p of grad_y[n, c, p]; zero for an empty batch. Sums of up to 256
// elements of a plane are of its type, the sum of these is float64.
void channel_bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias,
                       const ChannelShape& shape);

}  // namespace ddp::cpu

namespace ddp::cu {

// All also take 16-bit types, and compute them in float32.
void channel_bias_add(const Buffer& y, const Buffer& bias, const ChannelShape& shape,
                      Stream stream);
void channel_bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias,
                       const ChannelShape& shape, Stream stream);

}  // namespace ddp::cu
