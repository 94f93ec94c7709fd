// SPDX-License-Identifier: MIT
//
// One warp handles one row, and sums it in a fixed order, so that equal inputs give equal bits.
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/column_sums.cuh"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/layer_norm_checks.h"
#include "ddp/kernels/layer_norm.h"

namespace ddp::cu {
namespace {

template <class T>
__global__ void layer_norm_kernel(const T* x, const T* weight, const T* bias, double eps, T* y,
                                  T* means, T* rstds, MatrixShape shape) {
  const auto n = static_cast<double>(shape.columns);
  for (std::size_t r = launch::first_row(); r < shape.rows; r += launch::row_step()) {
    const T* in = x + r * shape.columns;
    T* out = y + r * shape.columns;
    double sum = 0, squares = 0;
    for (std::size_t c = launch::lane(); c < shape.columns; c += launch::kWarp) {
      sum += static_cast<double>(in[c]);
    }
    const T mean = static_cast<T>(launch::warp_sum(sum) / n);
    for (std::size_t c = launch::lane(); c < shape.columns; c += launch::kWarp) {
      const auto distance = static_cast<double>(in[c] - mean);
      squares += distance * distance;
    }
    const T rstd = static_cast<T>(1 / sqrt(launch::warp_sum(squares) / n + eps));
    for (std::size_t c = launch::lane(); c < shape.columns; c += launch::kWarp) {
      out[c] = (in[c] - mean) * rstd * weight[c] + bias[c];
    }
    if (launch::lane() == 0) {
      means[r] = mean;
      rstds[r] = rstd;
    }
  }
}

template <class T>
__global__ void layer_norm_grad_input_kernel(const T* x, const T* means, const T* rstds,
                                             const T* weight, const T* grad_y, T* grad_x,
                                             MatrixShape shape, WriteMode mode) {
  const auto n = static_cast<double>(shape.columns);
  for (std::size_t r = launch::first_row(); r < shape.rows; r += launch::row_step()) {
    const std::size_t offset = r * shape.columns;
    const T mean = means[r], rstd = rstds[r];
    double sum = 0, product = 0;
    for (std::size_t c = launch::lane(); c < shape.columns; c += launch::kWarp) {
      const T gradient = grad_y[offset + c] * weight[c];
      sum += static_cast<double>(gradient);
      product += static_cast<double>(gradient * (x[offset + c] - mean));
    }
    const auto deviation = static_cast<double>(rstd);
    const T mean_gradient = static_cast<T>(launch::warp_sum(sum) / n);
    const T slope = static_cast<T>(launch::warp_sum(product) * deviation * deviation / n);
    for (std::size_t c = launch::lane(); c < shape.columns; c += launch::kWarp) {
      const T gradient = grad_y[offset + c] * weight[c];
      launch::store(&grad_x[offset + c],
                    rstd * (gradient - mean_gradient - (x[offset + c] - mean) * slope), mode);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(launch::kColumnThreads)
    layer_norm_grad_weight_kernel(const T* x, const T* means, const T* rstds, const T* grad_y,
                                  T* grad_weight, MatrixShape shape, WriteMode mode) {
  const auto term = [&](std::size_t r, std::size_t c) {
    const std::size_t i = r * shape.columns + c;
    return grad_y[i] * ((x[i] - means[r]) * rstds[r]);
  };
  launch::store_column_sums(term, grad_weight, shape, mode);
}

}  // namespace

void layer_norm_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, double eps,
                        const LayerNormResult& result, MatrixShape shape, Stream stream) {
  detail::check_layer_norm_forward(x, weight, bias, result, shape);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  detail::dispatch_float("layer_norm_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(layer_norm_kernel<T>, launch::blocks_for(shape.rows, launch::kRowsPerBlock), stream,
                static_cast<const T*>(x.data), static_cast<const T*>(weight.data),
                static_cast<const T*>(bias.data), eps, static_cast<T*>(result.y.data),
                static_cast<T*>(result.mean.data), static_cast<T*>(result.rstd.data), shape);
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
    launch::run(
        layer_norm_grad_input_kernel<T>, launch::blocks_for(shape.rows, launch::kRowsPerBlock),
        stream, static_cast<const T*>(operands.x.data), static_cast<const T*>(operands.mean.data),
        static_cast<const T*>(operands.rstd.data), static_cast<const T*>(weight.data),
        static_cast<const T*>(grad_y.data), static_cast<T*>(target.data), shape, grad_x.mode);
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
    launch::run_columns(
        layer_norm_grad_weight_kernel<T>, shape.columns, stream,
        static_cast<const T*>(operands.x.data), static_cast<const T*>(operands.mean.data),
        static_cast<const T*>(operands.rstd.data), static_cast<const T*>(grad_y.data),
        static_cast<T*>(target.data), shape, grad_weight.mode);
  });
}

}  // namespace ddp::cu
