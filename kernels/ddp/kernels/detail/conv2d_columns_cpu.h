// SPDX-License-Identifier: MIT
//
// The CPU twin of detail/conv2d_columns.h, for one group of one sample at a time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ddp/kernels/conv2d.h"

namespace ddp::detail {

// The columns of one sample: row `tap` begins at tap * distance.
template <class T>
struct Columns {
  T* first;
  std::size_t distance;
};

// Where the pixels of a row of y lie, under one tap, in a row of x.
struct TapRow {
  std::size_t begin, end;  // the pixels of y that are no padding; end <= begin if all are
  std::size_t x_begin;     // where the first of them is in x
};

// A row of y is `width` pixels long.
inline TapRow tap_row(std::size_t tap_column, std::size_t width, const Conv2dShape& shape) {
  const std::size_t stride = shape.stride.width, padding = shape.padding.width;
  const std::size_t begin = tap_column < padding ? (padding - tap_column + stride - 1) / stride : 0;
  const std::size_t limit = shape.input.width + padding;  // the first padded column behind x
  const std::size_t end =
      tap_column < limit ? std::min(width, (limit - tap_column + stride - 1) / stride) : 0;
  return {begin, end, begin * stride + tap_column - padding};
}

// Calls f(row of x, columns of a row of y, TapRow) for every row of y and every tap; with null for
// the row of x if it is padding. `x` is one group's part of a sample.
template <class X, class T, class F>
void for_each_tap_row(X* x, const Columns<T>& columns, const Conv2dShape& shape, const F& f) {
  const Size2d output = shape.output();
  const std::size_t taps = shape.in_channels * shape.kernel.count();
  for (std::size_t tap = 0; tap < taps; ++tap) {
    const std::size_t h = tap / shape.kernel.width % shape.kernel.height;
    const TapRow row = tap_row(tap % shape.kernel.width, output.width, shape);
    X* plane = x + tap / shape.kernel.count() * shape.input.count();
    for (std::size_t r = 0; r < output.height; ++r) {
      // Unsigned: what lies above the image wraps around to far below it.
      const std::size_t x_row = r * shape.stride.height + h - shape.padding.height;
      X* source = x_row < shape.input.height ? plane + x_row * shape.input.width : nullptr;
      f(source, columns.first + tap * columns.distance + r * output.width, row);
    }
  }
}

// columns = the pixels of x that each tap sees.
template <class T>
void image_to_columns(const T* x, const Columns<T>& columns, const Conv2dShape& shape) {
  const std::size_t width = shape.output().width, stride = shape.stride.width;
  for_each_tap_row(x, columns, shape, [&](const T* source, T* to, TapRow row) {
    if (source == nullptr || row.end <= row.begin) {
      std::fill_n(to, width, T{0});
      return;
    }
    std::fill_n(to, row.begin, T{0});
    const T* from = source + row.x_begin;
    for (std::size_t c = row.begin; c < row.end; ++c, from += stride) to[c] = *from;
    std::fill(to + row.end, to + width, T{0});
  });
}

// Adds each element of columns to the pixel of x that it holds.
template <class T>
void add_columns_to_image(const Columns<T>& columns, T* x, const Conv2dShape& shape) {
  for_each_tap_row(x, columns, shape, [&](T* target, const T* from, TapRow row) {
    if (target == nullptr) return;
    T* to = target + row.x_begin;
    for (std::size_t c = row.begin; c < row.end; ++c, to += shape.stride.width) *to += from[c];
  });
}

}  // namespace ddp::detail
