// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/divisor.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/upsample_nearest2d.h"

namespace ddp::cu {
namespace {

template <class I>
struct Sizes {
  using Index = I;

  explicit Sizes(const Upsample2dShape& shape)
      : height(static_cast<Index>(shape.scale.height)),
        width(static_cast<Index>(shape.scale.width)),
        x_width(static_cast<Index>(shape.input.width)),
        y_width(x_width * width) {}

  detail::Divisor<Index> height, width;  // by which an image grows
  detail::Divisor<Index> x_width, y_width;
};

// One thread computes one pixel of y. The planes lie one after the other in memory, so i / y_width
// numbers the rows of all planes.
template <class T, class Index>
__global__ void upsample_kernel(const T* x, T* y, Index count, Sizes<Index> sizes) {
  launch::for_each_index(count, [&](Index i) {
    const Index row = i / sizes.y_width, column = i - row * sizes.y_width;
    y[i] = x[row / sizes.height * sizes.x_width + column / sizes.width];
  });
}

// One thread computes one pixel of x.
template <class T, class Index>
__global__ void upsample_backward_kernel(const T* grad_y, T* grad_x, Index count,
                                         Sizes<Index> sizes, WriteMode mode) {
  launch::for_each_index(count, [&](Index i) {
    const Index row = i / sizes.x_width, column = i - row * sizes.x_width;
    const T* block = grad_y + row * sizes.height * sizes.y_width + column * sizes.width;
    T sum = 0;
    for (Index r = 0; r < sizes.height; ++r) {
      for (Index c = 0; c < sizes.width; ++c) sum += block[r * sizes.y_width + c];
    }
    launch::store(&grad_x[i], sum, mode);
  });
}

// Calls f with the Sizes for a shape that is not empty.
template <class F>
void with_sizes(const Upsample2dShape& shape, const F& f) {
  launch::with_grid_index(shape.y_count(), [&](auto index) { f(Sizes<decltype(index)>(shape)); });
}

}  // namespace

void upsample_nearest2d_forward(const Buffer& x, const Buffer& y, const Upsample2dShape& shape,
                                Stream stream) {
  detail::check_x_and_y("upsample_nearest2d_forward", x, y, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("upsample_nearest2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    with_sizes(shape, [&](auto sizes) {
      using Index = typename decltype(sizes)::Index;
      launch::run(upsample_kernel<T, Index>, launch::blocks_for(y.count), stream,
                  static_cast<const T*>(x.data), static_cast<T*>(y.data),
                  static_cast<Index>(y.count), sizes);
    });
  });
}

void upsample_nearest2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                                 const Upsample2dShape& shape, Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_x_and_y("upsample_nearest2d_backward", target, grad_y, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("upsample_nearest2d_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    with_sizes(shape, [&](auto sizes) {
      using Index = typename decltype(sizes)::Index;
      launch::run(upsample_backward_kernel<T, Index>, launch::blocks_for(target.count), stream,
                  static_cast<const T*>(grad_y.data), static_cast<T*>(target.data),
                  static_cast<Index>(target.count), sizes, grad_x.mode);
    });
  });
}

}  // namespace ddp::cu
