// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp::cpu {

// y = 1 / (1 + exp(-x)), element-wise. x and y may be the same memory.
void sigmoid_forward(const Buffer& x, const Buffer& y);
// grad_x = grad_y * y * (1 - y). Needs only the output; the input need not be kept.
void sigmoid_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x);

}  // namespace ddp::cpu

namespace ddp::cu {

void sigmoid_forward(const Buffer& x, const Buffer& y, Stream stream);
void sigmoid_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                      Stream stream);

}  // namespace ddp::cu
