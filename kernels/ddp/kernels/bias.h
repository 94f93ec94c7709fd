// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp::cpu {

// y[r, c] += bias[c].
void bias_add(const Buffer& y, const Buffer& bias, MatrixShape shape);
// grad_bias[c] = sum over r of grad_y[r, c], computed in float64; zero if there is no row.
void bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias, MatrixShape shape);

}  // namespace ddp::cpu

namespace ddp::cu {

// All also take 16-bit types, and compute them in float32.
void bias_add(const Buffer& y, const Buffer& bias, MatrixShape shape, Stream stream);
void bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias, MatrixShape shape,
               Stream stream);

}  // namespace ddp::cu
