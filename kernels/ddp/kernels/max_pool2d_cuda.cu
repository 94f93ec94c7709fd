// SPDX-License-Identifier: MIT
#include <cstdint>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/max_pool2d_checks.h"
#include "ddp/kernels/detail/window_axis.h"
#include "ddp/kernels/max_pool2d.h"

namespace ddp::cu {
namespace {

template <class Index>
using Axes = detail::WindowAxes<detail::BasicFixedAxis<Index>>;

// One thread computes one window.
template <class T, class Index>
__global__ void max_pool2d_kernel(const T* x, T* y, std::int32_t* indices, Index count,
                                  Axes<Index> axes) {
  const Index width = axes.columns.input;
  launch::for_each_index(count, [&](Index i) {
    const Index row = i / axes.columns.output;  // of all planes
    const Index plane = row / axes.rows.output;
    const auto rows = axes.rows.window(row - plane * axes.rows.output);
    const auto columns = axes.columns.window(i - row * axes.columns.output);
    const T* in = x + static_cast<std::size_t>(plane) * axes.rows.input * width;
    Index best = rows.begin * width + columns.begin;
    auto largest = elementwise::convert<launch::Compute<T>>(in[best]);
    for (Index h = rows.begin; h < rows.end; ++h) {
      for (Index w = columns.begin; w < columns.end; ++w) {
        const Index at = h * width + w;
        const auto value = elementwise::convert<launch::Compute<T>>(in[at]);
        if (value > largest || value != value) {
          best = at;
          largest = value;
        }
      }
    }
    y[i] = in[best];
    indices[i] = static_cast<std::int32_t>(best);
  });
}

// One thread computes kWidth neighbouring elements of a row of x: it adds up the windows that chose
// them. This needs no atomics, so equal inputs give equal bits even where windows overlap.
template <int kWidth, class T, class Index>
__global__ void max_pool2d_backward_kernel(const T* grad_y, const std::int32_t* indices, T* grad_x,
                                           Index packs, detail::Divisor<Index> packs_per_row,
                                           Axes<Index> axes, WriteMode mode) {
  launch::for_each_index(packs, [&](Index i) {
    const Index row_of_all = i / packs_per_row;
    const Index plane = row_of_all / axes.rows.input;
    const Index row = row_of_all - plane * axes.rows.input;
    const Index column = (i - row_of_all * packs_per_row) * kWidth;
    const auto at = static_cast<std::int32_t>(row * axes.columns.input + column);
    const auto rows = axes.rows.windows_of(row);
    const Index begin = axes.columns.windows_of(column).begin;
    const Index end = axes.columns.windows_of(column + kWidth - 1).end;
    const Index first_window = plane * axes.rows.output * axes.columns.output;
    using Compute = launch::Compute<T>;
    elementwise::Pack<Compute, kWidth> sums = {};
    for (Index r = rows.begin; r < rows.end; ++r) {
      for (Index c = begin; c < end; ++c) {
        const Index window = first_window + r * axes.columns.output + c;
        const std::int32_t chosen = indices[window] - at;
        // Read in any case, so as not to wait for `chosen`.
        const auto gradient = elementwise::convert<Compute>(grad_y[window]);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sums.lane[k] += chosen == k ? gradient : Compute{0};
      }
    }
    launch::store<kWidth>(grad_x, std::size_t{i} * kWidth, sums, mode);
  });
}

}  // namespace

void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const Pool2dShape& shape, Stream stream) {
  detail::check_max_pool2d("max_pool2d_forward", x, y, indices, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  launch::dispatch_any_float("max_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_grid_index(detail::largest_index(shape), [&](auto index) {
      using Index = decltype(index);
      launch::run(max_pool2d_kernel<T, Index>, launch::blocks_for(y.count), stream,
                  static_cast<const T*>(x.data), static_cast<T*>(y.data),
                  static_cast<std::int32_t*>(indices.data), static_cast<Index>(y.count),
                  detail::axes_of<Index>(shape));
    });
  });
}

void max_pool2d_backward(const Buffer& grad_y, const Buffer& indices, const GradientTarget& grad_x,
                         const Pool2dShape& shape, Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_max_pool2d("max_pool2d_backward", target, grad_y, indices, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  launch::dispatch_any_float("max_pool2d_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_grid_index(detail::largest_index(shape), [&](auto index) {
      using Index = decltype(index);
      auto* elements = static_cast<T*>(target.data);
      const bool is_wide =
          launch::are_aligned(elements) && shape.input.width % launch::kWide<T> == 0;
      launch::with_width<T>(is_wide, [&](auto width) {
        const std::size_t packs = target.count / width;
        launch::run(max_pool2d_backward_kernel<width, T, Index>, launch::blocks_for(packs), stream,
                    static_cast<const T*>(grad_y.data),
                    static_cast<const std::int32_t*>(indices.data), elements,
                    static_cast<Index>(packs), static_cast<Index>(shape.input.width / width),
                    detail::axes_of<Index>(shape), grad_x.mode);
      });
    });
  });
}

}  // namespace ddp::cu
