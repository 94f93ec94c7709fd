// SPDX-License-Identifier: MIT
//
// Enlarges images: every pixel becomes a block of equal pixels. A plane is one channel of one
// sample; x is planes x input, y is planes x output, both contiguous.
#pragma once

#include <cstddef>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

struct Upsample2dShape {
  std::size_t planes = 0;
  Size2d input;
  Size2d scale;  // height and width of a block in pixels

  // Throws std::invalid_argument if a scale is 0.
  [[nodiscard]] Size2d output() const;
  [[nodiscard]] std::size_t x_count() const { return element_count({planes, input.count()}); }
  [[nodiscard]] std::size_t y_count() const { return element_count({planes, output().count()}); }
};

}  // namespace ddp

namespace ddp::cpu {

// y[p, r, c] = x[p, r / scale.height, c / scale.width], rounded down.
void upsample_nearest2d_forward(const Buffer& x, const Buffer& y, const Upsample2dShape& shape);
// grad_x[i] = sum of grad_y over i's block.
void upsample_nearest2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                                 const Upsample2dShape& shape);

}  // namespace ddp::cpu

namespace ddp::cu {

void upsample_nearest2d_forward(const Buffer& x, const Buffer& y, const Upsample2dShape& shape,
                                Stream stream);
void upsample_nearest2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                                 const Upsample2dShape& shape, Stream stream);

}  // namespace ddp::cu
