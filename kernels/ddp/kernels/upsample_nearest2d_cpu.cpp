// SPDX-License-Identifier: MIT
#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/upsample_nearest2d.h"

namespace ddp {

Size2d Upsample2dShape::output() const {
  if (scale.count() > 0) return {input.height * scale.height, input.width * scale.width};
  throw std::invalid_argument("[kernels] upsample_nearest2d: a scale of " +
                              std::to_string(scale.height) + " x " + std::to_string(scale.width));
}

}  // namespace ddp

namespace ddp::cpu {
namespace {

// target[i] += the sum of block i of a row.
template <class T, class Width>
void add_blocks(const T* row, Width block, std::size_t count, T* target) {
  for (std::size_t i = 0; i < count; ++i) {
    T sum = 0;
    for (std::size_t k = 0; k < block; ++k) sum += row[i * block + k];
    target[i] += sum;
  }
}

}  // namespace

void upsample_nearest2d_forward(const Buffer& x, const Buffer& y, const Upsample2dShape& shape) {
  detail::check_x_and_y("upsample_nearest2d_forward", x, y, shape);
  const std::size_t width = shape.output().width;
  detail::dispatch_float("upsample_nearest2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* from = static_cast<const T*>(x.data);
    T* row = static_cast<T*>(y.data);
    for (std::size_t r = 0; r < shape.planes * shape.input.height; ++r) {
      for (T* to = row; to != row + width; to += shape.scale.width) {
        std::fill_n(to, shape.scale.width, *from++);
      }
      for (std::size_t copy = 1; copy < shape.scale.height; ++copy) {
        std::copy_n(row, width, row + copy * width);
      }
      row += shape.scale.height * width;
    }
  });
}

void upsample_nearest2d_backward(const Buffer& grad_y, const GradientTarget& grad_x,
                                 const Upsample2dShape& shape) {
  detail::check_x_and_y("upsample_nearest2d_backward", grad_x.buffer, grad_y, shape);
  const std::size_t width = shape.output().width;
  detail::dispatch_float("upsample_nearest2d_backward", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    if (grad_x.mode == WriteMode::kOverwrite) std::ranges::fill(grad_x.buffer.as<T>(), T{0});
    const T* from = static_cast<const T*>(grad_y.data);
    T* row = static_cast<T*>(grad_x.buffer.data);
    for (std::size_t r = 0; r < shape.planes * shape.output().height; ++r, from += width) {
      T* target = row + r / shape.scale.height * shape.input.width;
      // The compiler vectorises only steps that are known at compile time.
      if (shape.scale.width == 2) {
        add_blocks(from, std::integral_constant<std::size_t, 2>{}, shape.input.width, target);
      } else {
        add_blocks(from, shape.scale.width, shape.input.width, target);
      }
    }
  });
}

}  // namespace ddp::cpu
