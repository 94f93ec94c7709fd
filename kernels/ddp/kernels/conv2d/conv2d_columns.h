// SPDX-License-Identifier: MIT
//
// Convolution as a matrix product: column p of a sample's matrix holds the pixels that the kernel
// covers when it computes pixel p of y. A row is a tap (channel, row, column of the kernel).
// columns: samples x taps x pixels of y.
#pragma once

#include "ddp/base/stream.h"
#include "ddp/kernels/conv2d.h"

namespace ddp::cu {

void image_to_columns(const Buffer& x, const Buffer& columns, const Conv2dShape& shape,
                      Stream stream);
// The transposed operation: x[i] = sum of the elements that hold pixel i.
void columns_to_image(const Buffer& columns, const GradientTarget& x, const Conv2dShape& shape,
                      Stream stream);

}  // namespace ddp::cu
