// SPDX-License-Identifier: MIT
//
// Sums are added in a fixed order, so that equal inputs give equal bits.
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/column_sums.cuh"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/layer_norm_checks.h"
#include "ddp/kernels/detail/rows.cuh"
#include "ddp/kernels/layer_norm.h"

namespace ddp::cu {
namespace {

template <class Rows, class T = typename Rows::Element>
__global__ void layer_norm_kernel(const T* x, const T* weight, const T* bias, double eps, T* y,
                                  T* means, T* rstds, MatrixShape shape) {
  using Team = typename Rows::Team;
  const std::size_t columns = shape.columns;
  const auto n = static_cast<double>(columns);
  Rows::for_each(shape.rows, [&](std::size_t r) {
    const auto row = Rows::read(x + r * columns, columns);
    double sum = 0, squares = 0;
    Rows::visit(
        columns, [&](std::size_t, T value) { sum += static_cast<double>(value); }, row);
    const T mean = static_cast<T>(Team::sum(sum) / n);
    const auto add_square = [&](std::size_t, T value) {
      const auto distance = static_cast<double>(value - mean);
      squares += distance * distance;
    };
    Rows::visit(columns, add_square, row);
    const T rstd = static_cast<T>(1 / sqrt(Team::sum(squares) / n + eps));
    const auto normalise = [&](std::size_t, T value, T scale, T shift) {
      return (value - mean) * rstd * scale + shift;
    };
    Rows::store(y + r * columns, columns, WriteMode::kOverwrite, normalise, row,
                typename Rows::InMemory(weight), typename Rows::InMemory(bias));
    if (Team::lane() == 0) {
      means[r] = mean;
      rstds[r] = rstd;
    }
  });
}

template <class Rows, class T = typename Rows::Element>
__global__ void layer_norm_grad_input_kernel(const T* x, const T* means, const T* rstds,
                                             const T* weight, const T* grad_y, T* grad_x,
                                             MatrixShape shape, WriteMode mode) {
  using Team = typename Rows::Team;
  const std::size_t columns = shape.columns;
  const auto n = static_cast<double>(columns);
  const typename Rows::InMemory scales(weight);
  Rows::for_each(shape.rows, [&](std::size_t r) {
    const auto inputs = Rows::read(x + r * columns, columns);
    const auto gradients = Rows::read(grad_y + r * columns, columns);
    const T mean = means[r], rstd = rstds[r];
    double sum = 0, product = 0;
    const auto add = [&](std::size_t, T input, T gradient, T scale) {
      sum += static_cast<double>(gradient * scale);
      product += static_cast<double>(gradient * scale * (input - mean));
    };
    Rows::visit(columns, add, inputs, gradients, scales);
    const auto deviation = static_cast<double>(rstd);
    const T mean_gradient = static_cast<T>(Team::sum(sum) / n);
    const T slope = static_cast<T>(Team::sum(product) * deviation * deviation / n);
    const auto grad_input = [&](std::size_t, T input, T gradient, T scale) {
      return rstd * (gradient * scale - mean_gradient - (input - mean) * slope);
    };
    Rows::store(grad_x + r * columns, columns, mode, grad_input, inputs, gradients, scales);
  });
}

template <unsigned kColumns, class T>
__global__ void __launch_bounds__(launch::kColumnThreads, 1)
    layer_norm_grad_weight_kernel(const T* x, const T* means, const T* rstds, const T* grad_y,
                                  T* grad_weight, MatrixShape shape, WriteMode mode) {
  const auto term = [=](std::size_t r, std::size_t c) {
    const std::size_t i = r * shape.columns + c;
    return grad_y[i] * ((x[i] - means[r]) * rstds[r]);
  };
  launch::store_column_sums<kColumns>(term, grad_weight, shape, mode);
}

}  // namespace

void layer_norm_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, double eps,
                        const LayerNormResult& result, MatrixShape shape, Stream stream) {
  detail::check_layer_norm_forward(x, weight, bias, result, shape);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("layer_norm_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* in = static_cast<const T*>(x.data);
    const auto* scale = static_cast<const T*>(weight.data);
    const auto* shift = static_cast<const T*>(bias.data);
    auto* out = static_cast<T*>(result.y.data);
    const bool is_aligned = launch::are_aligned(in, scale, shift, out);
    launch::with_rows<T>(shape, is_aligned, [&](auto rows, unsigned blocks) {
      launch::run(layer_norm_kernel<decltype(rows)>, blocks, stream, in, scale, shift, eps, out,
                  static_cast<T*>(result.mean.data), static_cast<T*>(result.rstd.data), shape);
    });
  });
}

void layer_norm_grad_input(const LayerNormOperands& operands, const Buffer& weight,
                           const Buffer& grad_y, const GradientTarget& grad_x, MatrixShape shape,
                           Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_layer_norm_grad_input(operands, weight, grad_y, target, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("layer_norm_grad_input", target.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* x = static_cast<const T*>(operands.x.data);
    const auto* scale = static_cast<const T*>(weight.data);
    const auto* gradient = static_cast<const T*>(grad_y.data);
    auto* out = static_cast<T*>(target.data);
    const bool is_aligned = launch::are_aligned(x, scale, gradient, out);
    launch::with_rows<T>(shape, is_aligned, [&](auto rows, unsigned blocks) {
      launch::run(layer_norm_grad_input_kernel<decltype(rows)>, blocks, stream, x,
                  static_cast<const T*>(operands.mean.data),
                  static_cast<const T*>(operands.rstd.data), scale, gradient, out, shape,
                  grad_x.mode);
    });
  });
}

void layer_norm_grad_weight(const LayerNormOperands& operands, const Buffer& grad_y,
                            const GradientTarget& grad_weight, MatrixShape shape, Stream stream) {
  const Buffer& target = grad_weight.buffer;
  detail::check_layer_norm_grad_weight(operands, grad_y, target, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("layer_norm_grad_weight", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::with_columns<T>(shape.columns, [&](auto columns, unsigned blocks) {
      launch_kernel(layer_norm_grad_weight_kernel<decltype(columns)::value, T>, blocks,
                    launch::kColumnThreads, stream, static_cast<const T*>(operands.x.data),
                    static_cast<const T*>(operands.mean.data),
                    static_cast<const T*>(operands.rstd.data), static_cast<const T*>(grad_y.data),
                    static_cast<T*>(target.data), shape, grad_weight.mode);
    });
  });
}

}  // namespace ddp::cu
