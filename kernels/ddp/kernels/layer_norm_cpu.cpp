// SPDX-License-Identifier: MIT
#include "ddp/kernels/layer_norm.h"

#include <cmath>
#include <span>
#include <vector>

#include "ddp/kernels/detail/layer_norm_checks.h"
#include "ddp/kernels/detail/wide_sums.h"

namespace ddp::cpu {
namespace {

using detail::WideSums;

template <class T>
double sum_of(const T* row, std::size_t columns) {
  WideSums sums;
  std::size_t c = 0;
  for (; c + WideSums::kLanes <= columns; c += WideSums::kLanes) {
    sums.first += __builtin_convertvector(WideSums::lanes(row + c), WideSums::Vector);
  }
  double sum = WideSums::total(sums.first);
  for (; c < columns; ++c) sum += static_cast<double>(row[c]);
  return sum;
}

// Of the distances from `mean`.
template <class T>
double squares_of(const T* row, std::size_t columns, T mean) {
  WideSums sums;
  std::size_t c = 0;
  for (; c + WideSums::kLanes <= columns; c += WideSums::kLanes) {
    const auto distance =
        __builtin_convertvector(WideSums::lanes(row + c) - mean, WideSums::Vector);
    sums.first += distance * distance;
  }
  double sum = WideSums::total(sums.first);
  for (; c < columns; ++c) sum += std::pow(static_cast<double>(row[c] - mean), 2);
  return sum;
}

// The sums over a row of g = grad_y * weight and of g * (x - mean).
struct RowSums {
  double gradient = 0;
  double product = 0;
};

template <class T>
RowSums sums_of(const T* x, const T* grad_y, const T* weight, std::size_t columns, T mean) {
  WideSums sums;
  std::size_t c = 0;
  for (; c + WideSums::kLanes <= columns; c += WideSums::kLanes) {
    const auto gradient = WideSums::lanes(grad_y + c) * WideSums::lanes(weight + c);
    sums.first += __builtin_convertvector(gradient, WideSums::Vector);
    sums.second +=
        __builtin_convertvector(gradient * (WideSums::lanes(x + c) - mean), WideSums::Vector);
  }
  RowSums total{WideSums::total(sums.first), WideSums::total(sums.second)};
  for (; c < columns; ++c) {
    total.gradient += static_cast<double>(grad_y[c] * weight[c]);
    total.product += static_cast<double>(grad_y[c] * weight[c] * (x[c] - mean));
  }
  return total;
}

// grad_x = rstd * (grad_y * weight - offset - (x - mean) * slope).
template <class T>
struct GradientOfRow {
  T mean;
  T rstd;
  T offset;
  T slope;
};

// Passed by value and __restrict, as in batch_norm_cpu.cpp.
template <class T, WriteMode mode>
void grad_input_of_row(const T* __restrict x, const T* __restrict grad_y,
                       const T* __restrict weight, std::size_t columns, GradientOfRow<T> of,
                       T* __restrict grad_x) {
  for (std::size_t c = 0; c < columns; ++c) {
    const T gradient = of.rstd * (grad_y[c] * weight[c] - of.offset - (x[c] - of.mean) * of.slope);
    grad_x[c] = mode == WriteMode::kAccumulate ? grad_x[c] + gradient : gradient;
  }
}

}  // namespace

void layer_norm_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, double eps,
                        const LayerNormResult& result, MatrixShape shape) {
  detail::check_layer_norm_forward(x, weight, bias, result, shape);
  if (shape.columns == 0) return;
  const auto n = static_cast<double>(shape.columns);
  detail::dispatch_float("layer_norm_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* __restrict scales = static_cast<const T*>(weight.data);
    const T* __restrict shifts = static_cast<const T*>(bias.data);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      const T* __restrict in = static_cast<const T*>(x.data) + r * shape.columns;
      T* __restrict out = static_cast<T*>(result.y.data) + r * shape.columns;
      const T mean = static_cast<T>(sum_of(in, shape.columns) / n);
      const double variance = squares_of(in, shape.columns, mean) / n;
      const T rstd = static_cast<T>(1 / std::sqrt(variance + eps));
      for (std::size_t c = 0; c < shape.columns; ++c) {
        out[c] = (in[c] - mean) * rstd * scales[c] + shifts[c];
      }
      result.mean.as<T>()[r] = mean;
      result.rstd.as<T>()[r] = rstd;
    }
  });
}

void layer_norm_grad_input(const LayerNormOperands& operands, const Buffer& weight,
                           const Buffer& grad_y, const GradientTarget& grad_x, MatrixShape shape) {
  detail::check_layer_norm_grad_input(operands, weight, grad_y, grad_x.buffer, shape);
  const auto n = static_cast<double>(shape.columns);
  detail::dispatch_float("layer_norm_grad_input", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    const auto run = grad_x.mode == WriteMode::kAccumulate
                         ? grad_input_of_row<T, WriteMode::kAccumulate>
                         : grad_input_of_row<T, WriteMode::kOverwrite>;
    const T* scales = static_cast<const T*>(weight.data);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      const std::size_t offset = r * shape.columns;
      const T* in = static_cast<const T*>(operands.x.data) + offset;
      const T* incoming = static_cast<const T*>(grad_y.data) + offset;
      const T mean = operands.mean.as<const T>()[r], rstd = operands.rstd.as<const T>()[r];
      const auto deviation = static_cast<double>(rstd);
      const RowSums sums = sums_of(in, incoming, scales, shape.columns, mean);
      run(in, incoming, scales, shape.columns,
          {mean, rstd, static_cast<T>(sums.gradient / n),
           static_cast<T>(sums.product * deviation * deviation / n)},
          static_cast<T*>(grad_x.buffer.data) + offset);
    }
  });
}

void layer_norm_grad_weight(const LayerNormOperands& operands, const Buffer& grad_y,
                            const GradientTarget& grad_weight, MatrixShape shape) {
  const Buffer& target = grad_weight.buffer;
  detail::check_layer_norm_grad_weight(operands, grad_y, target, shape);
  std::vector<double> sums(shape.columns);
  detail::dispatch_float("layer_norm_grad_weight", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      const T* in = static_cast<const T*>(operands.x.data) + r * shape.columns;
      const T* incoming = static_cast<const T*>(grad_y.data) + r * shape.columns;
      const T mean = operands.mean.as<const T>()[r], rstd = operands.rstd.as<const T>()[r];
      for (std::size_t c = 0; c < shape.columns; ++c) {
        sums[c] += static_cast<double>(incoming[c] * ((in[c] - mean) * rstd));
      }
    }
    const std::span<T> gradients = target.as<T>();
    const bool accumulates = grad_weight.mode == WriteMode::kAccumulate;
    for (std::size_t c = 0; c < shape.columns; ++c) {
      gradients[c] = (accumulates ? gradients[c] : T{0}) + static_cast<T>(sums[c]);
    }
  });
}

}  // namespace ddp::cpu
