// SPDX-License-Identifier: MIT
//
// Maximum over windows of an image.
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/pool2d_shape.h"

namespace ddp::cpu {

// y = the largest element of each window, without padding. indices (int32, y_count) = its position
// in its plane: the first among equals. NaN counts as larger than any number; of several NaNs, the
// last.
void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const Pool2dShape& shape);
// grad_x[i] = sum of grad_y over the windows whose index is i.
void max_pool2d_backward(const Buffer& grad_y, const Buffer& indices, const GradientTarget& grad_x,
                         const Pool2dShape& shape);

}  // namespace ddp::cpu

namespace ddp::cu {

// All also take 16-bit types, and compute them in float32.
void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const Pool2dShape& shape, Stream stream);
void max_pool2d_backward(const Buffer& grad_y, const Buffer& indices, const GradientTarget& grad_x,
                         const Pool2dShape& shape, Stream stream);

}  // namespace ddp::cu
