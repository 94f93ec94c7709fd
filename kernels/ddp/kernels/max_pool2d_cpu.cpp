// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ddp/kernels/detail/lanes.h"
#include "ddp/kernels/detail/max_pool2d_checks.h"
#include "ddp/kernels/detail/pool_axis.h"
#include "ddp/kernels/max_pool2d.h"

namespace ddp::cpu {
namespace {

// A row of y: its windows, their rows first.
template <class T>
void forward_row(const T* x, const detail::Range& rows,
                 const detail::PoolAxes<detail::FixedAxis>& axes, T* y, std::int32_t* indices) {
  for (std::size_t c = 0; c < axes.columns.output; ++c) {
    const detail::Range columns = axes.columns.window(c);
    std::size_t best = rows.begin * axes.columns.input + columns.begin;
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (std::size_t w = columns.begin; w < columns.end; ++w) {
        const std::size_t at = h * axes.columns.input + w;
        if (x[at] > x[best] || x[at] != x[at]) best = at;
      }
    }
    y[c] = x[best];
    indices[c] = static_cast<std::int32_t>(best);
  }
}

// Windows of 2 x 2 side by side, as many as a vector has lanes. Where in its window the largest
// element stands cannot be predicted, so it is found without a branch.
template <class T>
class HalvingRow {
 public:
  using L = detail::Lanes<T, 16>;
  static constexpr std::size_t kWindows = L::kCount;

  HalvingRow(const T* row, std::size_t first, std::size_t x_width)
      : row_(row), first_(static_cast<Index>(first)), x_width_(static_cast<Index>(x_width)) {}

  // Windows c to c + kWindows - 1.
  void compute(std::size_t c, T* y, std::int32_t* indices) const {
    auto [best, upper_right] = load_pairs(row_ + 2 * c);
    const auto [lower_left, lower_right] = load_pairs(row_ + 2 * c + x_width_);
    IndexVector offsets{};
    take_larger(upper_right, 1, best, offsets);
    take_larger(lower_left, x_width_, best, offsets);
    take_larger(lower_right, x_width_ + 1, best, offsets);
    *reinterpret_cast<typename L::Unaligned*>(y + c) = best;
    for (std::size_t i = 0; i < kWindows; ++i) {
      const Index left = first_ + 2 * static_cast<Index>(c + i);
      indices[c + i] = static_cast<std::int32_t>(left + offsets[i]);
    }
  }

 private:
  // As wide as T, as selections by vectors want it.
  using Index = std::conditional_t<sizeof(T) == sizeof(std::int32_t), std::int32_t, std::int64_t>;
  using Vector = typename L::Vector;
  using IndexVector = typename detail::Lanes<Index, 16>::Vector;
  struct Pairs {
    Vector left;
    Vector right;
  };

  static Pairs load_pairs(const T* elements) {
    const auto* vectors = reinterpret_cast<const typename L::Unaligned*>(elements);
    Pairs pairs{vectors[0], vectors[1]};
    detail::deinterleave<L>(pairs.left, pairs.right);
    return pairs;
  }
  static void take_larger(const Vector& values, Index offset, Vector& best, IndexVector& offsets) {
    const IndexVector is_larger = (values > best) | (values != values);
    best = is_larger ? values : best;
    offsets = is_larger ? IndexVector{} + offset : offsets;
  }

  const T* row_;
  Index first_;
  Index x_width_;
};

template <class T>
void forward_halving_row(const T* x, const detail::Range& rows,
                         const detail::PoolAxes<detail::FixedAxis>& axes, T* y,
                         std::int32_t* indices) {
  using Row = HalvingRow<T>;
  const std::size_t width = axes.columns.output;
  if (width < Row::kWindows) return forward_row(x, rows, axes, y, indices);
  const std::size_t first = rows.begin * axes.columns.input;
  const Row row(x + first, first, axes.columns.input);
  std::size_t c = 0;
  for (; c + Row::kWindows <= width; c += Row::kWindows) row.compute(c, y, indices);
  // The last ones again, rather than one by one.
  if (c < width) row.compute(width - Row::kWindows, y, indices);
}

bool is_halving(const Pool2dShape& shape) {
  return shape.kernel == Size2d{2, 2} && shape.stride == Size2d{2, 2} &&
         shape.padding == Size2d{0, 0};
}

}  // namespace

void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const Pool2dShape& shape) {
  detail::check_max_pool2d("max_pool2d_forward", x, y, indices, shape);
  const detail::PoolAxes<detail::FixedAxis> axes = detail::axes_of(shape);
  detail::dispatch_float("max_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto compute_row = is_halving(shape) ? forward_halving_row<T> : forward_row<T>;
    T* y_row = static_cast<T*>(y.data);
    auto* indices_row = static_cast<std::int32_t*>(indices.data);
    for (std::size_t p = 0; p < shape.planes; ++p) {
      const T* plane = static_cast<const T*>(x.data) + p * shape.input.count();
      for (std::size_t r = 0; r < axes.rows.output; ++r) {
        compute_row(plane, axes.rows.window(r), axes, y_row, indices_row);
        y_row += axes.columns.output;
        indices_row += axes.columns.output;
      }
    }
  });
}

void max_pool2d_backward(const Buffer& grad_y, const Buffer& indices, const GradientTarget& grad_x,
                         const Pool2dShape& shape) {
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
