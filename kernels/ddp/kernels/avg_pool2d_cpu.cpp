// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/wide_sums.h"
#include "ddp/kernels/detail/window_axis.h"

namespace ddp::cpu {
namespace {

// Calls f(rows, columns, divisor) for each window of a plane.
template <class Axis, class F>
void for_each_window(const detail::WindowAxes<Axis>& axes, const F& f) {
  for (std::size_t r = 0; r < axes.rows.output; ++r) {
    for (std::size_t c = 0; c < axes.columns.output; ++c) {
      f(axes.rows.window(r), axes.columns.window(c),
        axes.rows.divisor(r) * axes.columns.divisor(c));
    }
  }
}

template <class T>
T sum_of(const T* plane, std::size_t width, const detail::Range& rows,
         const detail::Range& columns) {
  T sum = 0;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    for (std::size_t c = columns.begin; c < columns.end; ++c) sum += plane[r * width + c];
  }
  return sum;
}

// For windows of many pixels: a sum over a whole image would lose digits in float32.
template <class T>
double wide_sum_of(const T* plane, std::size_t width, const detail::Range& rows,
                   const detail::Range& columns) {
  double sum = 0;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const T* const row = plane + r * width + columns.begin;
    sum += detail::wide_sum(columns.size(), [=](std::size_t c) { return row[c]; });
  }
  return sum;
}

template <class T>
void add_to(T* plane, std::size_t width, const detail::Range& rows, const detail::Range& columns,
            T summand) {
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    for (std::size_t c = columns.begin; c < columns.end; ++c) plane[r * width + c] += summand;
  }
}

// Inlined, it makes gcc 12 compile the loop over small windows to slower code.
template <class T, class Shape>
[[gnu::noinline]] void write_wide_means(const T* plane, T* target, const Shape& shape) {
  const auto axes = detail::axes_of(shape);
  for (std::size_t p = 0; p < shape.planes; ++p, plane += shape.input.count()) {
    for_each_window(axes, [&](auto rows, auto columns, std::size_t divisor) {
      const double sum = wide_sum_of(plane, shape.input.width, rows, columns);
      *target++ = static_cast<T>(sum / static_cast<double>(divisor));
    });
  }
}

template <class Shape>
void forward(const Buffer& x, const Buffer& y, const Shape& shape) {
  detail::check_x_and_y("avg_pool2d_forward", x, y, shape);
  const auto axes = detail::axes_of(shape);
  detail::dispatch_float("avg_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* plane = static_cast<const T*>(x.data);
    T* target = static_cast<T*>(y.data);
    constexpr std::size_t kFewPixels = 64;
    if (detail::window_pixels(shape) > kFewPixels) return write_wide_means(plane, target, shape);
    for (std::size_t p = 0; p < shape.planes; ++p, plane += shape.input.count()) {
      for_each_window(axes, [&](auto rows, auto columns, std::size_t divisor) {
        *target++ = sum_of(plane, shape.input.width, rows, columns) / static_cast<T>(divisor);
      });
    }
  });
}

template <class Shape>
void backward(const Buffer& grad_y, const GradientTarget& grad_x, const Shape& shape) {
  detail::check_x_and_y("avg_pool2d_backward", grad_x.buffer, grad_y, shape);
  const auto axes = detail::axes_of(shape);
  detail::dispatch_float("avg_pool2d_backward", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    if (grad_x.mode == WriteMode::kOverwrite) std::ranges::fill(grad_x.buffer.as<T>(), T{0});
    T* plane = static_cast<T*>(grad_x.buffer.data);
    const T* grad = static_cast<const T*>(grad_y.data);
    for (std::size_t p = 0; p < shape.planes; ++p, plane += shape.input.count()) {
      for_each_window(axes, [&](auto rows, auto columns, std::size_t divisor) {
        add_to(plane, shape.input.width, rows, columns, *grad++ / static_cast<T>(divisor));
      });
    }
  });
}

}  // namespace

void avg_pool2d_forward(const Buffer& x, const Buffer& y, const Pool2dShape& shape) {
  forward(x, y, shape);
}
void avg_pool2d_forward(const Buffer& x, const Buffer& y, const AdaptivePool2dShape& shape) {
  forward(x, y, shape);
}
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const Pool2dShape& shape) {
  backward(grad_y, grad_x, shape);
}
void avg_pool2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                         const AdaptivePool2dShape& shape) {
  backward(grad_y, grad_x, shape);
}

}  // namespace ddp::cpu
