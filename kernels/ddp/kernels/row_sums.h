// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp::cpu {

// sums[r] = the sum of row r of x, computed in float64; 0 without columns.
void row_sums_forward(const Buffer& x, const Buffer& sums, MatrixShape shape);
// Every element of row r of grad_x = grad_sums[r].
void row_sums_backward(const Buffer& grad_sums, const GradientTarget& grad_x, MatrixShape shape);

}  // namespace ddp::cpu

namespace ddp::cu {

void row_sums_forward(const Buffer& x, const Buffer& sums, MatrixShape shape, Stream stream);
void row_sums_backward(const Buffer& grad_sums, const GradientTarget& grad_x, MatrixShape shape,
                       Stream stream);

}  // namespace ddp::cu
