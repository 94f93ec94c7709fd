// SPDX-License-Identifier: MIT
//
// The windows of a pooling or a convolution along one axis, for host and device code.
#pragma once

#include <cstddef>

#include "ddp/kernels/detail/host_device.h"
#include "ddp/kernels/pool2d_shape.h"

namespace ddp::detail {

// [begin, end)
struct Range {
  std::size_t begin, end;

  DDP_HOST_DEVICE std::size_t size() const { return end - begin; }
};

// Windows of one size.
struct FixedAxis {
  std::size_t input, output, kernel, stride, padding;

  // The pixels that window i covers, without padding.
  DDP_HOST_DEVICE Range window(std::size_t i) const {
    const std::size_t begin = i * stride, end = begin + kernel;
    return {begin < padding ? 0 : begin - padding, end < input + padding ? end - padding : input};
  }
  // The divisor of the window's sum.
  DDP_HOST_DEVICE std::size_t divisor(std::size_t) const { return kernel; }
  // The windows that have a pixel, not padding, under a position of the kernel (a tap).
  DDP_HOST_DEVICE Range windows_at(std::size_t tap) const {
    const std::size_t begin = tap < padding ? (padding - tap + stride - 1) / stride : 0;
    const std::size_t limit = input + padding;  // the first padding behind the pixels
    const std::size_t end = tap < limit ? (limit - tap + stride - 1) / stride : 0;
    const std::size_t last = end < output ? end : output;
    return {begin, begin < last ? last : begin};
  }
  // The pixel that `window` has under `tap`; valid only for the windows of windows_at(tap).
  DDP_HOST_DEVICE std::size_t pixel_of(std::size_t window, std::size_t tap) const {
    return window * stride + tap - padding;
  }
  // The windows that cover a pixel.
  DDP_HOST_DEVICE Range windows_of(std::size_t pixel) const {
    const std::size_t at = pixel + padding;
    const std::size_t end = at / stride + 1;
    return {at < kernel ? 0 : (at - kernel) / stride + 1, end < output ? end : output};
  }
};

// As many windows as requested.
struct AdaptiveAxis {
  std::size_t input, output;

  DDP_HOST_DEVICE Range window(std::size_t i) const {
    return {i * input / output, ((i + 1) * input + output - 1) / output};
  }
  DDP_HOST_DEVICE std::size_t divisor(std::size_t i) const { return window(i).size(); }
  DDP_HOST_DEVICE Range windows_of(std::size_t pixel) const {
    return {pixel * output / input, ((pixel + 1) * output + input - 1) / input};
  }
};

template <class Axis>
struct WindowAxes {
  Axis rows, columns;
};

inline WindowAxes<FixedAxis> axes_of(const Pool2dShape& shape) {
  const Size2d output = shape.output();
  return {{shape.input.height, output.height, shape.kernel.height, shape.stride.height,
           shape.padding.height},
          {shape.input.width, output.width, shape.kernel.width, shape.stride.width,
           shape.padding.width}};
}

inline WindowAxes<AdaptiveAxis> axes_of(const AdaptivePool2dShape& shape) {
  return {{shape.input.height, shape.windows.height}, {shape.input.width, shape.windows.width}};
}

}  // namespace ddp::detail
