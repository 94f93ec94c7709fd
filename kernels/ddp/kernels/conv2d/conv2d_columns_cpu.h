// SPDX-License-Identifier: MIT
//
// The CPU version of conv2d/conv2d_columns.h, for one group of one sample at a time.
#pragma once

#include <cstddef>

#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/detail/window_axis.h"

namespace ddp::detail {

// The columns of one sample: row `tap` begins at tap * distance.
template <class T>
struct Columns {
  T* first;
  std::size_t distance;
};

// Calls f(pixels of x, columns of a row of y, Range of those outside the padding) for every row of
// y and every tap; the pixels begin with the Range's first. `x` is one group's part of a sample.
template <class X, class T, class F>
void for_each_tap_row(X* x, const Columns<T>& columns, const Conv2dShape& shape, const F& f) {
  const Size2d output = shape.output();
  const FixedAxis axis{shape.input.width, output.width, shape.kernel.width, shape.stride.width,
                       shape.padding.width};
  const std::size_t taps = shape.in_channels * shape.kernel.count();
  for (std::size_t tap = 0; tap < taps; ++tap) {
    const std::size_t h = tap / shape.kernel.width % shape.kernel.height;
    const std::size_t w = tap % shape.kernel.width;
    const Range seen = axis.windows_at(w);
    X* plane = x + tap / shape.kernel.count() * shape.input.count();
    for (std::size_t r = 0; r < output.height; ++r) {
      // Unsigned: a row above the image wraps around to a very large number, which is below the
      // image.
      const std::size_t row = r * shape.stride.height + h - shape.padding.height;
      const bool is_seen = row < shape.input.height && seen.size() > 0;
      X* pixels =
          is_seen ? plane + row * shape.input.width + axis.pixel_of(seen.begin, w) : nullptr;
      f(pixels, columns.first + tap * columns.distance + r * output.width,
        is_seen ? seen : Range{0, 0});
    }
  }
}

// Copies the pixels of x that each tap sees into columns, which hold zeros already: clearing the
// padding here would take many memset calls of a few elements each for small images.
template <class T>
void image_to_columns(const T* x, const Columns<T>& columns, const Conv2dShape& shape) {
  const std::size_t stride = shape.stride.width;
  for_each_tap_row(x, columns, shape, [&](const T* from, T* to, const Range& seen) {
    for (std::size_t c = seen.begin; c < seen.end; ++c, from += stride) to[c] = *from;
  });
}

// Adds each element of columns to the pixel of x that it came from.
template <class T>
void add_columns_to_image(const Columns<T>& columns, T* x, const Conv2dShape& shape) {
  for_each_tap_row(x, columns, shape, [&](T* to, const T* from, const Range& seen) {
    for (std::size_t c = seen.begin; c < seen.end; ++c, to += shape.stride.width) *to += from[c];
  });
}

}  // namespace ddp::detail
