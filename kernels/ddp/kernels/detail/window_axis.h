// SPDX-License-Identifier: MIT
//
// The windows of a pooling or a convolution along one axis, for host and device code. Kernels
// choose an Index whose Divisor is fast.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ddp/kernels/detail/divisor.h"
#include "ddp/kernels/detail/host_device.h"
#include "ddp/kernels/pool2d_shape.h"

namespace ddp::detail {

// [begin, end)
template <class Index>
struct BasicRange {
  Index begin, end;

  DDP_HOST_DEVICE Index size() const { return end - begin; }
};
using Range = BasicRange<std::size_t>;

// Windows of one size.
template <class I>
struct BasicFixedAxis {
  using Index = I;
  using Range = BasicRange<Index>;

  Divisor<Index> input, output;
  Index kernel;
  Divisor<Index> stride;
  Index padding;

  // The pixels that window i covers, without padding.
  DDP_HOST_DEVICE Range window(Index i) const {
    const Index begin = i * stride, end = begin + kernel;
    return {begin < padding ? 0 : begin - padding,
            end < input + padding ? end - padding : Index{input}};
  }
  // The divisor of the window's sum.
  DDP_HOST_DEVICE Index divisor(Index) const { return kernel; }
  // The windows that have a pixel, not padding, under a position of the kernel (a tap).
  DDP_HOST_DEVICE Range windows_at(Index tap) const {
    const Index begin = tap < padding ? (padding - tap + stride - 1) / stride : 0;
    const Index limit = input + padding;  // the first padding behind the pixels
    const Index end = tap < limit ? (limit - tap + stride - 1) / stride : 0;
    const Index last = end < output ? end : Index{output};
    return {begin, begin < last ? last : begin};
  }
  // The pixel that `window` has under `tap`; valid only for the windows of windows_at(tap).
  DDP_HOST_DEVICE Index pixel_of(Index window, Index tap) const {
    return window * stride + tap - padding;
  }
  // The windows that cover a pixel.
  DDP_HOST_DEVICE Range windows_of(Index pixel) const {
    const Index at = pixel + padding;
    const Index end = at / stride + 1;
    return {at < kernel ? 0 : (at - kernel) / stride + 1, end < output ? end : Index{output}};
  }
};
using FixedAxis = BasicFixedAxis<std::size_t>;

// As many windows as requested.
template <class I>
struct BasicAdaptiveAxis {
  using Index = I;
  using Range = BasicRange<Index>;

  Divisor<Index> input, output;

  DDP_HOST_DEVICE Range window(Index i) const {
    return {i * input / output, ((i + 1) * input + output - 1) / output};
  }
  DDP_HOST_DEVICE Index divisor(Index i) const { return window(i).size(); }
  DDP_HOST_DEVICE Range windows_of(Index pixel) const {
    return {pixel * output / input, ((pixel + 1) * output + input - 1) / input};
  }
};
using AdaptiveAxis = BasicAdaptiveAxis<std::size_t>;

template <class Axis>
struct WindowAxes {
  using Index = typename Axis::Index;

  Axis rows, columns;
};

template <class Index = std::size_t>
WindowAxes<BasicFixedAxis<Index>> axes_of(const Pool2dShape& shape) {
  const auto axis = [](std::size_t input, std::size_t output, std::size_t kernel,
                       std::size_t stride, std::size_t padding) {
    return BasicFixedAxis<Index>{static_cast<Index>(input), static_cast<Index>(output),
                                 static_cast<Index>(kernel), static_cast<Index>(stride),
                                 static_cast<Index>(padding)};
  };
  const Size2d output = shape.output();
  return {axis(shape.input.height, output.height, shape.kernel.height, shape.stride.height,
               shape.padding.height),
          axis(shape.input.width, output.width, shape.kernel.width, shape.stride.width,
               shape.padding.width)};
}

template <class Index = std::size_t>
WindowAxes<BasicAdaptiveAxis<Index>> axes_of(const AdaptivePool2dShape& shape) {
  return {{static_cast<Index>(shape.input.height), static_cast<Index>(shape.windows.height)},
          {static_cast<Index>(shape.input.width), static_cast<Index>(shape.windows.width)}};
}

// The most pixels that a window covers.
inline std::size_t window_pixels(const Pool2dShape& shape) { return shape.kernel.count(); }
inline std::size_t window_pixels(const AdaptivePool2dShape& shape) {
  return (shape.input.height / shape.windows.height + 1) *
         (shape.input.width / shape.windows.width + 1);
}

// More than any number that an axis divides.
inline std::size_t largest_index(const Pool2dShape& shape) {
  const Size2d padded{shape.input.height + 2 * shape.padding.height,
                      shape.input.width + 2 * shape.padding.width};
  return std::max(shape.planes, std::size_t{1}) * padded.count();
}
inline std::size_t largest_index(const AdaptivePool2dShape& shape) {
  const auto& [height, width] = shape.input;
  return std::max({shape.x_count(), shape.y_count(), (height + 1) * (shape.windows.height + 1),
                   (width + 1) * (shape.windows.width + 1)});
}

}  // namespace ddp::detail
