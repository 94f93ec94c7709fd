// SPDX-License-Identifier: MIT
//
// Means over windows of an image.
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/pool2d_shape.h"

namespace ddp::cpu {

// y = the sum over each window / the pixels of the kernel: padding counts as zeros (PyTorch's
// count_include_pad, its default).
void avg_pool2d_forward(const Buffer& x, const Buffer& y, const Pool2dShape& shape);
// grad_x[i] = sum of grad_y / the kernel's pixels over the windows that cover i.
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const Pool2dShape& shape);

// The same with adaptive windows, whose sizes differ; each sum is divided by the window's own size.
void avg_pool2d_forward(const Buffer& x, const Buffer& y, const AdaptivePool2dShape& shape);
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const AdaptivePool2dShape& shape);

}  // namespace ddp::cpu

namespace ddp::cu {

// All also take 16-bit types, and compute them in float32.
void avg_pool2d_forward(const Buffer& x, const Buffer& y, const Pool2dShape& shape, Stream stream);
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const Pool2dShape& shape, Stream stream);
void avg_pool2d_forward(const Buffer& x, const Buffer& y, const AdaptivePool2dShape& shape,
                        Stream stream);
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const AdaptivePool2dShape& shape, Stream stream);

}  // namespace ddp::cu
