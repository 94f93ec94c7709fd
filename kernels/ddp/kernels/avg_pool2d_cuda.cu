// SPDX-License-Identifier: MIT
#include <type_traits>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/window_axis.h"

namespace ddp::cu {
namespace {

// kLanes neighbouring threads, 1 or a warp, compute one window.
template <unsigned kLanes, class T, class Axes>
__global__ void avg_pool2d_kernel(const T* x, T* y, typename Axes::Index count, Axes axes) {
  using Index = typename Axes::Index;
  using Compute = launch::Compute<T>;
  constexpr unsigned kAcross = kLanes == 1 ? 1 : 8, kOver = kLanes / kAcross;
  const unsigned lane = threadIdx.x % kLanes;
  const auto& rows = axes.rows;
  const auto& columns = axes.columns;
  launch::for_each_index(count * kLanes, [&](Index thread) {
    const Index i = thread / kLanes;
    const Index row = i / columns.output;  // of all planes
    const Index plane = row / rows.output;
    const Index r = row - plane * rows.output, c = i - row * columns.output;
    const T* in = x + static_cast<std::size_t>(plane) * rows.input * columns.input;
    const auto over = rows.window(r);
    const auto across = columns.window(c);
    Compute sum = 0;
    for (Index h = over.begin + lane / kAcross; h < over.end; h += kOver) {
      for (Index w = across.begin + lane % kAcross; w < across.end; w += kAcross) {
        sum += elementwise::convert<Compute>(in[h * columns.input + w]);
      }
    }
    if constexpr (kLanes > 1) sum = launch::warp_sum(sum);
    const Compute average = sum / static_cast<Compute>(rows.divisor(r) * columns.divisor(c));
    if (lane == 0) y[i] = elementwise::convert<T>(average);
  });
}

// One thread computes kWidth neighbouring pixels of a row of x: it adds up the windows that cover
// them.
template <int kWidth, class T, class Axes>
__global__ void avg_pool2d_backward_kernel(const T* grad_y, T* grad_x, typename Axes::Index packs,
                                           detail::Divisor<typename Axes::Index> packs_per_row,
                                           Axes axes, WriteMode mode) {
  using Index = typename Axes::Index;
  using Compute = launch::Compute<T>;
  const auto& rows = axes.rows;
  const auto& columns = axes.columns;
  launch::for_each_index(packs, [&](Index i) {
    const Index row = i / packs_per_row;  // of all planes
    const Index plane = row / rows.input;
    const Index column = (i - row * packs_per_row) * kWidth;
    const auto over = rows.windows_of(row - plane * rows.input);
    const Index begin = columns.windows_of(column).begin;
    const Index end = columns.windows_of(column + kWidth - 1).end;
    const T* windows = grad_y + static_cast<std::size_t>(plane) * rows.output * columns.output;
    elementwise::Pack<Compute, kWidth> sums = {};
    for (Index r = over.begin; r < over.end; ++r) {
      for (Index c = begin; c < end; ++c) {
        const Compute share = elementwise::convert<Compute>(windows[r * columns.output + c]) /
                              static_cast<Compute>(rows.divisor(r) * columns.divisor(c));
        const auto across = columns.window(c);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const bool is_covered = column + k >= across.begin && column + k < across.end;
          sums.lane[k] += is_covered ? share : Compute{0};
        }
      }
    }
    launch::store<kWidth>(grad_x, std::size_t{i} * kWidth, sums, mode);
  });
}

template <class Shape>
void forward(const Buffer& x, const Buffer& y, const Shape& shape, Stream stream) {
  detail::check_x_and_y("avg_pool2d_forward", x, y, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  launch::dispatch_any_float("avg_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto launch_with = [&](auto lanes) {
      launch::with_grid_index(detail::largest_index(shape) * lanes, [&](auto index) {
        using Index = decltype(index);
        const auto axes = detail::axes_of<Index>(shape);
        launch::run(avg_pool2d_kernel<lanes, T, std::decay_t<decltype(axes)>>,
                    launch::blocks_for(y.count * lanes), stream, static_cast<const T*>(x.data),
                    static_cast<T*>(y.data), static_cast<Index>(y.count), axes);
      });
    };
    if (detail::window_pixels(shape) < launch::kWarp) {
      launch_with(std::integral_constant<unsigned, 1>{});
    } else {
      launch_with(std::integral_constant<unsigned, launch::kWarp>{});
    }
  });
}

template <class Shape>
void backward(const Buffer& grad_y, const GradientTarget& grad_x, const Shape& shape,
              Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_x_and_y("avg_pool2d_backward", target, grad_y, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  launch::dispatch_any_float("avg_pool2d_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_grid_index(detail::largest_index(shape), [&](auto index) {
      using Index = decltype(index);
      const auto axes = detail::axes_of<Index>(shape);
      auto* elements = static_cast<T*>(target.data);
      const bool is_wide =
          launch::are_aligned(elements) && shape.input.width % launch::kWide<T> == 0;
      launch::with_width<T>(is_wide, [&](auto width) {
        const std::size_t packs = target.count / width;
        launch::run(avg_pool2d_backward_kernel<width, T, std::decay_t<decltype(axes)>>,
                    launch::blocks_for(packs), stream, static_cast<const T*>(grad_y.data), elements,
                    static_cast<Index>(packs), static_cast<Index>(shape.input.width / width), axes,
                    grad_x.mode);
      });
    });
  });
}

}  // namespace

void avg_pool2d_forward(const Buffer& x, const Buffer& y, const Pool2dShape& shape, Stream stream) {
  forward(x, y, shape, stream);
}
void avg_pool2d_forward(const Buffer& x, const Buffer& y, const AdaptivePool2dShape& shape,
                        Stream stream) {
  forward(x, y, shape, stream);
}
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const Pool2dShape& shape, Stream stream) {
  backward(grad_y, grad_x, shape, stream);
}
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const AdaptivePool2dShape& shape, Stream stream) {
  backward(grad_y, grad_x, shape, stream);
}

}  // namespace ddp::cu
