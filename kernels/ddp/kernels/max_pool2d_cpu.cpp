// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "ddp/kernels/detail/lanes.h"
#include "ddp/kernels/detail/max_pool2d_checks.h"
#include "ddp/kernels/detail/window_axis.h"
#include "ddp/kernels/max_pool2d.h"

namespace ddp::cpu {
namespace {

using Axes = detail::WindowAxes<detail::FixedAxis>;

// Compares the windows' pixels under one tap, which are `stride` apart and the first of which has
// the index `at`, with the largest so far. The outcome cannot be predicted, so there is no branch.
template <class T, class Stride>
void take_larger(const T* x, std::int32_t at, std::size_t count, Stride stride, T* y,
                 std::int32_t* indices) {
  for (std::size_t i = 0; i < count; ++i) {
    const T value = x[i * stride];
    const bool is_larger = (value > y[i]) | (value != value);
    y[i] = is_larger ? value : y[i];
    indices[i] = is_larger ? at + static_cast<std::int32_t>(i * stride) : indices[i];
  }
}

// The rows of y, one at a time; what all rows share is computed once.
template <class T>
class Rows {
 public:
  explicit Rows(const detail::FixedAxis& axis) : axis_(axis) {
    for (std::size_t c = 0; c < axis.output; ++c) {
      begins_.push_back(static_cast<std::int32_t>(axis.window(c).begin));
    }
    for (std::size_t tap = 0; tap < axis.kernel; ++tap) {
      const detail::Range windows = axis.windows_at(tap);
      if (windows.size() > 0) taps_.push_back({windows, axis.pixel_of(windows.begin, tap)});
    }
  }

  // Computes a row whose windows cover these rows of the plane x.
  void compute(const T* x, const detail::Range& rows, T* y, std::int32_t* indices) const {
    const auto first = static_cast<std::int32_t>(rows.begin * axis_.input);
    for (std::size_t c = 0; c < axis_.output; ++c) {
      y[c] = -std::numeric_limits<T>::infinity();
      indices[c] = first + begins_[c];
    }
    for (std::size_t h = rows.begin; h < rows.end; ++h) {
      for (const Tap& tap : taps_) compare(x, h * axis_.input + tap.pixel, tap.windows, y, indices);
    }
  }

 private:
  // A column of the kernel.
  struct Tap {
    detail::Range windows;  // that find no padding under it
    std::size_t pixel;      // that the first of them finds
  };

  void compare(const T* x, std::size_t first, const detail::Range& windows, T* y,
               std::int32_t* indices) const {
    const auto take = [&](auto stride) {
      take_larger(x + first, static_cast<std::int32_t>(first), windows.size(), stride,
                  y + windows.begin, indices + windows.begin);
    };
    // The compiler vectorises only steps that are known at compile time.
    if (axis_.stride == 1) return take(std::integral_constant<std::size_t, 1>{});
    if (axis_.stride == 2) return take(std::integral_constant<std::size_t, 2>{});
    take(axis_.stride);
  }

  detail::FixedAxis axis_;
  std::vector<std::int32_t> begins_;  // of each window
  std::vector<Tap> taps_;
};

// Adjacent 2 x 2 windows, as many as a vector has lanes. The position of the largest element cannot
// be predicted, so it is found without a branch.
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
  // As wide as T, as vector selections require.
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

// Like Rows, for adjacent 2 x 2 windows.
template <class T>
class HalvingRows {
 public:
  explicit HalvingRows(const detail::FixedAxis& axis) : axis_(axis) {}

  static bool suit(const Pool2dShape& shape) {
    return shape.kernel == Size2d{2, 2} && shape.stride == Size2d{2, 2} &&
           shape.padding == Size2d{0, 0} && shape.output().width >= HalvingRow<T>::kWindows;
  }

  void compute(const T* x, const detail::Range& rows, T* y, std::int32_t* indices) const {
    constexpr std::size_t kStep = HalvingRow<T>::kWindows;
    const std::size_t first = rows.begin * axis_.input;
    const HalvingRow<T> row(x + first, first, axis_.input);
    std::size_t c = 0;
    for (; c + kStep <= axis_.output; c += kStep) row.compute(c, y, indices);
    // Computes the last windows again, rather than one by one.
    if (c < axis_.output) row.compute(axis_.output - kStep, y, indices);
  }

 private:
  detail::FixedAxis axis_;
};

template <class T, class RowKernel>
void compute_planes(const Buffer& x, const Buffer& y, const Buffer& indices,
                    const Pool2dShape& shape, const Axes& axes, const RowKernel& row) {
  const T* plane = static_cast<const T*>(x.data);
  T* y_row = static_cast<T*>(y.data);
  auto* indices_row = static_cast<std::int32_t*>(indices.data);
  for (std::size_t p = 0; p < shape.planes; ++p, plane += shape.input.count()) {
    for (std::size_t r = 0; r < axes.rows.output; ++r) {
      row.compute(plane, axes.rows.window(r), y_row, indices_row);
      y_row += axes.columns.output;
      indices_row += axes.columns.output;
    }
  }
}

}  // namespace

void max_pool2d_forward(const Buffer& x, const Buffer& y, const Buffer& indices,
                        const Pool2dShape& shape) {
  detail::check_max_pool2d("max_pool2d_forward", x, y, indices, shape);
  const Axes axes = detail::axes_of(shape);
  detail::dispatch_float("max_pool2d_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    if (HalvingRows<T>::suit(shape)) {
      compute_planes<T>(x, y, indices, shape, axes, HalvingRows<T>(axes.columns));
    } else {
      compute_planes<T>(x, y, indices, shape, axes, Rows<T>(axes.columns));
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
