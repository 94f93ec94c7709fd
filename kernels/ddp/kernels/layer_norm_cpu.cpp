// SPDX-License-Identifier: MIT
#include "ddp/kernels/layer_norm.h"

#include <cmath>
#include <span>
#include <vector>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/layer_norm_checks.h"
#include "ddp/kernels/detail/wide_sums.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

template <class T>
struct RowStatistics {
  T mean;
  T rstd;
};

template <class T>
RowStatistics<T> statistics_of(const T* row, std::size_t columns, double eps) {
  const auto n = static_cast<double>(columns);
  const T mean =
      static_cast<T>(detail::wide_sum(columns, [=](std::size_t c) { return row[c]; }) / n);
  const double squares = detail::wide_sum(columns, [=](std::size_t c) {
    const auto distance = static_cast<double>(row[c] - mean);
    return distance * distance;
  });
  return {mean, static_cast<T>(1 / std::sqrt(squares / n + eps))};
}

// grad_x = rstd * (g - mean of g - (x - mean) * rstd^2 * mean of g * (x - mean)), where
// g = grad_y * weight.
template <class T>
void grad_input_of_row(const T* x, const T* grad_y, const T* weight, std::size_t columns,
                       RowStatistics<T> statistics, T* grad_x, WriteMode mode) {
  const T mean = statistics.mean, rstd = statistics.rstd;
  const auto gradient = [=](std::size_t c) { return grad_y[c] * weight[c]; };
  const detail::TwoSums sums = detail::wide_sums(
      columns, gradient, [=](std::size_t c) { return gradient(c) * (x[c] - mean); });
  const auto n = static_cast<double>(columns);
  const auto deviation = static_cast<double>(rstd);
  const T offset = static_cast<T>(sums.first / n);
  const T slope = static_cast<T>(sums.second * deviation * deviation / n);
  detail::write_each(grad_x, mode, columns, [=](std::size_t c) {
    return rstd * (gradient(c) - offset - (x[c] - mean) * slope);
  });
}

}  // namespace

void layer_norm_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, double eps,
                        const LayerNormResult& result, MatrixShape shape) {
  detail::check_layer_norm_forward(x, weight, bias, result, shape);
  if (shape.columns == 0) return;
  detail::dispatch_float("layer_norm_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(x.data);
    const T* scales = static_cast<const T*>(weight.data);
    const T* shifts = static_cast<const T*>(bias.data);
    T* out = static_cast<T*>(result.y.data);
    const std::span<T> means = result.mean.as<T>(), rstds = result.rstd.as<T>();
    vectorised([=] {
      for (std::size_t r = 0; r < shape.rows; ++r) {
        const T* row = in + r * shape.columns;
        const auto [mean, rstd] = statistics_of(row, shape.columns, eps);
        detail::write_each(out + r * shape.columns, WriteMode::kOverwrite, shape.columns,
                           [=, mean = mean, rstd = rstd](std::size_t c) {
                             return (row[c] - mean) * rstd * scales[c] + shifts[c];
                           });
        means[r] = mean;
        rstds[r] = rstd;
      }
    });
  });
}

void layer_norm_grad_input(const LayerNormOperands& operands, const Buffer& weight,
                           const Buffer& grad_y, const GradientTarget& grad_x, MatrixShape shape) {
  detail::check_layer_norm_grad_input(operands, weight, grad_y, grad_x.buffer, shape);
  detail::dispatch_float("layer_norm_grad_input", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(operands.x.data);
    const T* incoming = static_cast<const T*>(grad_y.data);
    const T* scales = static_cast<const T*>(weight.data);
    T* target = static_cast<T*>(grad_x.buffer.data);
    const auto means = operands.mean.as<const T>(), rstds = operands.rstd.as<const T>();
    vectorised([=, mode = grad_x.mode] {
      for (std::size_t r = 0; r < shape.rows; ++r) {
        const std::size_t offset = r * shape.columns;
        grad_input_of_row(in + offset, incoming + offset, scales, shape.columns,
                          RowStatistics<T>{means[r], rstds[r]}, target + offset, mode);
      }
    });
  });
}

void layer_norm_grad_weight(const LayerNormOperands& operands, const Buffer& grad_y,
                            const GradientTarget& grad_weight, MatrixShape shape) {
  const Buffer& target = grad_weight.buffer;
  detail::check_layer_norm_grad_weight(operands, grad_y, target, shape);
  std::vector<double> of_columns(shape.columns);
  detail::dispatch_float("layer_norm_grad_weight", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(operands.x.data);
    const T* incoming = static_cast<const T*>(grad_y.data);
    const auto means = operands.mean.as<const T>(), rstds = operands.rstd.as<const T>();
    vectorised([=, sums = of_columns.data()] {
      for (std::size_t r = 0; r < shape.rows; ++r) {
        const std::size_t offset = r * shape.columns;
        detail::write_each(sums, WriteMode::kAccumulate, shape.columns,
                           [=, mean = means[r], rstd = rstds[r]](std::size_t c) {
                             const T normalised = (in[offset + c] - mean) * rstd;
                             return static_cast<double>(incoming[offset + c] * normalised);
                           });
      }
    });
    detail::write_each(static_cast<T*>(target.data), grad_weight.mode, shape.columns,
                       [&](std::size_t c) { return static_cast<T>(of_columns[c]); });
  });
}

}  // namespace ddp::cpu
