// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/kernels/shapes.h"

namespace ddp {

// Windows of one size that move over planes (a plane is one channel of one sample). x is planes x
// input, y is planes x output, both contiguous. Rows and columns at the end that no window covers
// are ignored, as in PyTorch with ceil_mode = False.
struct Pool2dShape {
  std::size_t planes = 0;
  Size2d input;
  Size2d kernel;
  Size2d stride;
  Size2d padding{0, 0};  // on both sides, at most half of the kernel

  // Throws std::invalid_argument if a stride is 0, the kernel is larger than the padded input, or
  // the padding is more than half of the kernel.
  [[nodiscard]] Size2d output() const;
  [[nodiscard]] std::size_t x_count() const { return element_count({planes, input.count()}); }
  [[nodiscard]] std::size_t y_count() const { return element_count({planes, output().count()}); }
};

// As many windows as y has pixels. Of n windows over a length l, window i is [floor(i * l / n),
// ceil((i + 1) * l / n)), as in PyTorch.
struct AdaptivePool2dShape {
  std::size_t planes = 0;
  Size2d input;
  Size2d windows;

  // Throws std::invalid_argument if there are windows but no pixels, or pixels but no windows.
  [[nodiscard]] Size2d output() const;
  [[nodiscard]] std::size_t x_count() const { return element_count({planes, input.count()}); }
  [[nodiscard]] std::size_t y_count() const { return element_count({planes, output().count()}); }
};

}  // namespace ddp
