// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/kernels/shapes.h"

namespace ddp {

// Windows of one size that move over planes (a plane is one channel of one sample). x is planes x
// input, y planes x output, contiguous. Rows and columns that no window covers are left out, as in
// PyTorch with ceil_mode = False.
struct Pool2dShape {
  std::size_t planes = 0;
  Size2d input;
  Size2d kernel;
  Size2d stride;
  Size2d padding{0, 0};  // on either side, at most half of the kernel

  // Throws std::invalid_argument if a stride is 0, the kernel is larger than the padded input, or
  // the padding more than half of it.
  [[nodiscard]] Size2d output() const;
  [[nodiscard]] std::size_t x_count() const { return planes * input.count(); }
  [[nodiscard]] std::size_t y_count() const { return planes * output().count(); }
};

// As many windows as y shall have pixels: window i of n over a length l is [floor(i * l / n),
// ceil((i + 1) * l / n)), as in PyTorch.
struct AdaptivePool2dShape {
  std::size_t planes = 0;
  Size2d input;
  Size2d windows;

  // Throws std::invalid_argument if there are windows but no pixels, or pixels but no windows.
  [[nodiscard]] Size2d output() const;
  [[nodiscard]] std::size_t x_count() const { return planes * input.count(); }
  [[nodiscard]] std::size_t y_count() const { return planes * output().count(); }
};

}  // namespace ddp
