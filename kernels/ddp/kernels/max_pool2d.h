// SPDX-License-Identifier: MIT
//
// Maximum over windows of an image. A plane is one channel of one sample; x is planes x input, y
// planes x output, contiguous. Rows and columns that no window covers are left out, as in PyTorch.
#pragma once

#include <cstddef>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

struct MaxPool2dShape {
  std::size_t planes = 0;
  Size2d input;
  Size2d kernel;
  Size2d stride;

  // Throws std::invalid_argument if a stride is 0 or the kernel is larger than the input.
  [[nodiscard]] Size2d output() const { return windows("max_pool2d", input, kernel, stride); }
  [[nodiscard]] std::size_t x_count() const { return planes * input.count(); }
  [[nodiscard]] std::size_t y_count() const { return planes * output().count(); }
};

}  // namespace ddp

namespace ddp::cpu {

// y = the largest element of each window; indices (int32, y_count) = where in its plane it stands,
// the first of equals; of several NaNs, which count as larger than any number, the last.
void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const MaxPool2dShape& shape);
// grad_x[i] = sum of grad_y over the windows whose index is i.
void max_pool2d_backward(const Buffer& grad_y, const Buffer& indices, const GradientTarget& grad_x,
                         const MaxPool2dShape& shape);

}  // namespace ddp::cpu

namespace ddp::cu {

void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const MaxPool2dShape& shape, Stream stream);
void max_pool2d_backward(const Buffer& grad_y, const Buffer& indices, const GradientTarget& grad_x,
                         const MaxPool2dShape& shape, Stream stream);

}  // namespace ddp::cu
