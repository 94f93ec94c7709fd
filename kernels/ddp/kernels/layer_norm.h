// SPDX-License-Identifier: MIT
//
// Layer normalisation (Ba, Kiros, Hinton 2016) of the rows of a matrix, and its gradient. weight
// and bias have one element per column, mean and rstd one per row. The gradient of the bias is
// bias_grad() of ddp/kernels/bias.h.
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

// All of the dtype of x.
struct LayerNormResult {
  Buffer y;
  Buffer mean;  // for the backward pass, as is rstd
  Buffer rstd;  // 1 / sqrt(biased variance + eps)
};

struct LayerNormOperands {
  Buffer x;
  Buffer mean;
  Buffer rstd;
};

}  // namespace ddp

namespace ddp::cpu {

// y = (x - mean) * rstd * weight + bias. Sums over a row are computed in float64.
void layer_norm_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, double eps,
                        const LayerNormResult& result, MatrixShape shape);

// With z = (x - mean) * rstd and g = grad_y * weight:
//   grad_x = rstd * (g - mean of g - z * mean of (g * z)), the means over a row;
//   grad_weight = the sum of grad_y * z over the rows; zero if there is none.
void layer_norm_grad_input(const LayerNormOperands& operands, const Buffer& weight,
                           const Buffer& grad_y, const GradientTarget& grad_x, MatrixShape shape);
void layer_norm_grad_weight(const LayerNormOperands& operands, const Buffer& grad_y,
                            const GradientTarget& grad_weight, MatrixShape shape);

}  // namespace ddp::cpu

namespace ddp::cu {

void layer_norm_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, double eps,
                        const LayerNormResult& result, MatrixShape shape, Stream stream);
void layer_norm_grad_input(const LayerNormOperands& operands, const Buffer& weight,
                           const Buffer& grad_y, const GradientTarget& grad_x, MatrixShape shape,
                           Stream stream);
void layer_norm_grad_weight(const LayerNormOperands& operands, const Buffer& grad_y,
                            const GradientTarget& grad_weight, MatrixShape shape, Stream stream);

}  // namespace ddp::cu
