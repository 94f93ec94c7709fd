// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp::cpu {

// y = max(x, 0), element-wise; NaN stays NaN. x and y may be the same memory.
void relu_forward(const Buffer& x, const Buffer& y);
// grad_x = grad_y where y > 0, else 0. Needs only the output; the input need not be kept.
void relu_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x);

}  // namespace ddp::cpu

namespace ddp::cu {

void relu_forward(const Buffer& x, const Buffer& y, Stream stream);
void relu_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                   Stream stream);

}  // namespace ddp::cu
