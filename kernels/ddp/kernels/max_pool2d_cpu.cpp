// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>

#include "ddp/kernels/detail/max_pool2d_checks.h"
#include "ddp/kernels/max_pool2d.h"

namespace ddp::cpu {
namespace {

// A row of windows. kSize is the size and stride of the windows if they are square and the compiler
// is to know it, which lets it vectorise; otherwise 0. Selections are made without a branch: where
// in its window the largest element stands cannot be predicted.
template <class T, std::size_t kSize>
void forward_row(const T* __restrict x, std::int32_t first_index, const MaxPool2dShape& shape,
                 T* __restrict y, std::int32_t* __restrict indices, std::size_t width) {
  const Size2d kernel = kSize == 0 ? shape.kernel : Size2d{kSize, kSize};
  const std::size_t step = kSize == 0 ? shape.stride.width : kSize;
  const std::size_t x_width = shape.input.width;
  for (std::size_t c = 0; c < width; ++c) {
    T best = x[c * step];
    std::int32_t best_offset = 0;
    for (std::size_t h = 0; h < kernel.height; ++h) {
      for (std::size_t w = 0; w < kernel.width; ++w) {
        const T value = x[h * x_width + c * step + w];
        const auto offset = static_cast<std::int32_t>(h * x_width + w);
        const bool is_larger = (value > best) | (value != value);
        best = is_larger ? value : best;
        best_offset = is_larger ? offset : best_offset;
      }
    }
    y[c] = best;
    indices[c] = first_index + static_cast<std::int32_t>(c * step) + best_offset;
  }
}

template <class T, std::size_t kSize>
void forward_plane(const T* x, T* y, std::int32_t* indices, const MaxPool2dShape& shape,
                   const Size2d& output) {
  for (std::size_t r = 0; r < output.height; ++r) {
    const std::size_t first = r * shape.stride.height * shape.input.width;
    forward_row<T, kSize>(x + first, static_cast<std::int32_t>(first), shape, y + r * output.width,
                          indices + r * output.width, output.width);
  }
}

}  // namespace

void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const MaxPool2dShape& shape) {
  detail::check_max_pool2d("max_pool2d_forward", x, y, indices, shape);
  const Size2d output = shape.output();
  detail::dispatch_float("max_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const bool is_halving = shape.kernel == Size2d{2, 2} && shape.stride == Size2d{2, 2};
    const auto forward = is_halving ? forward_plane<T, 2> : forward_plane<T, 0>;
    for (std::size_t p = 0; p < shape.planes; ++p) {
      forward(static_cast<const T*>(x.data) + p * shape.input.count(),
              static_cast<T*>(y.data) + p * output.count(),
              static_cast<std::int32_t*>(indices.data) + p * output.count(), shape, output);
    }
  });
}

void max_pool2d_backward(const Buffer& grad_y, const Buffer& indices, const GradientTarget& grad_x,
                         const MaxPool2dShape& shape) {
  detail::check_max_pool2d("max_pool2d_backward", grad_x.buffer, grad_y, indices, shape);
  const std::size_t windows_of_plane = shape.output().count();
  detail::dispatch_float("max_pool2d_backward", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    if (grad_x.mode == WriteMode::kOverwrite) std::ranges::fill(grad_x.buffer.as<T>(), T{0});
    T* target = static_cast<T*>(grad_x.buffer.data);
    const T* grad = static_cast<const T*>(grad_y.data);
    const auto* index = static_cast<const std::int32_t*>(indices.data);
    for (std::size_t p = 0; p < shape.planes; ++p, target += shape.input.count()) {
      for (std::size_t i = 0; i < windows_of_plane; ++i) target[*index++] += *grad++;
    }
  });
}

}  // namespace ddp::cpu
