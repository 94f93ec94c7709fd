// SPDX-License-Identifier: MIT
//
// Batch normalisation with given statistics, and its gradient (Ioffe, Szegedy 2015). It is cut into
// steps so that sums can be combined with those of other devices before they are used.
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

// Each holds one element per channel, of the dtype of x, or float32 if that has 16 bits.
struct BatchNormOperands {
  Buffer mean;
  Buffer invstd;
  Buffer weight;  // empty means ones
};

}  // namespace ddp

namespace ddp::cpu {

// y = (x - mean) * invstd * weight + bias; an empty `bias` means zeros.
void batch_norm_forward(const Buffer& x, const BatchNormOperands& operands, const Buffer& bias,
                        const Buffer& y, const ChannelShape& shape);

// sums (float64, 2 * channels): for each channel the sum of grad_y, then for each channel the sum
// of grad_y * (x - mean). Zeros if x is empty.
void batch_norm_sums(const Buffer& x, const Buffer& grad_y, const Buffer& mean, const Buffer& sums,
                     const ChannelShape& shape);

// grad_bias = sum of grad_y; grad_weight = invstd * sum of grad_y * (x - mean).
void batch_norm_grad_bias(const Buffer& sums, const GradientTarget& grad_bias);
void batch_norm_grad_weight(const Buffer& sums, const Buffer& invstd,
                            const GradientTarget& grad_weight);

// The part of grad_x that comes from the statistics' dependence on x. `sums` and `n` (float64, one
// element: the number of elements of a channel) are those of the whole batch; x may be a part of
// it. terms (2 * channels): for each channel sum_1 / n, then for each channel invstd^2 * sum_2 / n.
void batch_norm_terms(const Buffer& sums, const Buffer& n, const Buffer& invstd,
                      const Buffer& terms);

// grad_x = weight * invstd * (grad_y - term_1 - (x - mean) * term_2). Empty `terms` mean zeros, for
// statistics that do not depend on x.
void batch_norm_grad_input(const Buffer& x, const Buffer& grad_y, const BatchNormOperands& operands,
                           const Buffer& terms, const GradientTarget& grad_x,
                           const ChannelShape& shape);

}  // namespace ddp::cpu

namespace ddp::cu {

// The versions that have x also take 16-bit types; operands with one element per channel are
// float32 then.
void batch_norm_forward(const Buffer& x, const BatchNormOperands& operands, const Buffer& bias,
                        const Buffer& y, const ChannelShape& shape, Stream stream);
void batch_norm_sums(const Buffer& x, const Buffer& grad_y, const Buffer& mean, const Buffer& sums,
                     const ChannelShape& shape, Stream stream);
void batch_norm_grad_bias(const Buffer& sums, const GradientTarget& grad_bias, Stream stream);
void batch_norm_grad_weight(const Buffer& sums, const Buffer& invstd,
                            const GradientTarget& grad_weight, Stream stream);
void batch_norm_terms(const Buffer& sums, const Buffer& n, const Buffer& invstd,
                      const Buffer& terms, Stream stream);
void batch_norm_grad_input(const Buffer& x, const Buffer& grad_y, const BatchNormOperands& operands,
                           const Buffer& terms, const GradientTarget& grad_x,
                           const ChannelShape& shape, Stream stream);

}  // namespace ddp::cu
