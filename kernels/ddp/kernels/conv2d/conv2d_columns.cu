// SPDX-License-Identifier: MIT
#include "ddp/kernels/conv2d/conv2d_columns.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

// One thread computes one element of the columns.
template <class T>
__global__ void image_to_columns_kernel(const T* x, T* columns, std::size_t count,
                                        Conv2dShape shape, Size2d output) {
  const std::size_t pixels = output.height * output.width;
  const std::size_t kernel = shape.kernel.height * shape.kernel.width;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const std::size_t pixel = i % pixels;
    const std::size_t tap = i / pixels % kernel;
    const std::size_t plane = i / pixels / kernel;  // of a sample and an input channel
    // The arithmetic is unsigned: a position before the image wraps around to one far behind it, so
    // one comparison finds both.
    const std::size_t row = pixel / output.width * shape.stride.height + tap / shape.kernel.width -
                            shape.padding.height;
    const std::size_t column =
        pixel % output.width * shape.stride.width + tap % shape.kernel.width - shape.padding.width;
    const bool is_inside = row < shape.input.height && column < shape.input.width;
    columns[i] =
        is_inside ? x[(plane * shape.input.height + row) * shape.input.width + column] : T{0};
  }
}

// One thread computes one pixel of x: for each tap it finds the pixel of y that the tap carried it
// to.
template <class T>
__global__ void columns_to_image_kernel(const T* columns, T* x, std::size_t count,
                                        Conv2dShape shape, Size2d output, WriteMode mode) {
  const std::size_t kernel = shape.kernel.height * shape.kernel.width;
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const std::size_t column = i % shape.input.width + shape.padding.width;
    const std::size_t row = i / shape.input.width % shape.input.height + shape.padding.height;
    const std::size_t plane = i / shape.input.width / shape.input.height;
    T sum = 0;
    for (std::size_t tap = 0; tap < kernel; ++tap) {
      const std::size_t h = tap / shape.kernel.width, w = tap % shape.kernel.width;
      if (h > row || w > column) continue;
      const std::size_t r = (row - h) / shape.stride.height;
      const std::size_t c = (column - w) / shape.stride.width;
      const bool is_hit = r * shape.stride.height + h == row && r < output.height &&
                          c * shape.stride.width + w == column && c < output.width;
      if (is_hit) sum += columns[((plane * kernel + tap) * output.height + r) * output.width + c];
    }
    launch::store(&x[i], sum, mode);
  }
}

}  // namespace

void image_to_columns(const Buffer& x, const Buffer& columns, const Conv2dShape& shape,
                      Stream stream) {
  detail::dispatch_float("image_to_columns", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(image_to_columns_kernel<T>, launch::blocks_for(columns.count), stream,
                static_cast<const T*>(x.data), static_cast<T*>(columns.data), columns.count, shape,
                shape.output());
  });
}

void columns_to_image(const Buffer& columns, const GradientTarget& x, const Conv2dShape& shape,
                      Stream stream) {
  detail::dispatch_float("columns_to_image", columns.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(columns_to_image_kernel<T>, launch::blocks_for(x.buffer.count), stream,
                static_cast<const T*>(columns.data), static_cast<T*>(x.buffer.data), x.buffer.count,
                shape, shape.output(), x.mode);
  });
}

}  // namespace ddp::cu
