// SPDX-License-Identifier: MIT
//
// One block sums one row, in a fixed order, so that equal inputs give equal bits.
#include <cmath>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/mean.cuh"
#include "ddp/kernels/detail/pointwise_loss_checks.h"
#include "ddp/kernels/pointwise_loss.h"

namespace ddp::cu {
namespace {

template <class T>
struct SquaredError {
  __device__ T loss(T x, T target) const { return (x - target) * (x - target); }
  __device__ T slope(T x, T target) const { return T{2} * (x - target); }
};

template <class T>
struct BinaryCrossEntropy {
  T pos_weight;

  __device__ T weight(T target) const { return T{1} + (pos_weight - T{1}) * target; }
  __device__ T loss(T x, T target) const {
    const T log_of_p = log1p(exp(-abs(x))) + max(-x, T{0});  // this is -log(p)
    return (T{1} - target) * x + weight(target) * log_of_p;
  }
  __device__ T slope(T x, T target) const {
    return T{1} - target - weight(target) / (T{1} + exp(x));
  }
};

template <class T, class Loss>
__global__ void row_losses_kernel(Loss loss, const T* x, const T* target, T* row_losses,
                                  MatrixShape shape) {
  for (std::size_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const std::size_t row = r * shape.columns;
    double sum = 0;
    for (std::size_t c = threadIdx.x; c < shape.columns; c += launch::kThreads) {
      sum += static_cast<double>(loss.loss(x[row + c], target[row + c]));
    }
    sum = launch::block_sum(sum);
    if (threadIdx.x != 0) continue;
    row_losses[r] = shape.columns == 0 ? T{0} : static_cast<T>(sum / shape.columns);
  }
}

template <class T, class Loss>
__global__ void pointwise_backward_kernel(Loss loss, const T* x, const T* target,
                                          const T* grad_loss, T* grad_x, std::size_t count,
                                          WriteMode mode) {
  const T scale = *grad_loss / static_cast<T>(count);
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    launch::store(&grad_x[i], loss.slope(x[i], target[i]) * scale, mode);
  }
}

template <class T, class Loss>
void forward(const Loss& loss, const Buffer& x, const Buffer& target,
             const PointwiseLossResult& result, MatrixShape shape, Stream stream) {
  const DeviceGuard guard(x.device);
  T* row_losses = static_cast<T*>(result.row_losses.data);
  if (shape.rows > 0) {
    launch::run(row_losses_kernel<T, Loss>, launch::blocks_for(shape.rows, 1), stream, loss,
                static_cast<const T*>(x.data), static_cast<const T*>(target.data), row_losses,
                shape);
  }
  launch::run(launch::mean_kernel<T>, 1, stream, row_losses, shape.rows,
              static_cast<T*>(result.loss.data));
}

template <class T, class Loss>
void backward(const Loss& loss, const Buffer& x, const Buffer& target, const Buffer& grad_loss,
              const GradientTarget& grad_x, Stream stream) {
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  launch::run(pointwise_backward_kernel<T, Loss>, launch::blocks_for(x.count), stream, loss,
              static_cast<const T*>(x.data), static_cast<const T*>(target.data),
              static_cast<const T*>(grad_loss.data), static_cast<T*>(grad_x.buffer.data), x.count,
              grad_x.mode);
}

}  // namespace

void mse_forward(const Buffer& x, const Buffer& target, const PointwiseLossResult& result,
                 MatrixShape shape, Stream stream) {
  detail::check_pointwise_loss("mse_forward", x, target, result, shape);
  detail::dispatch_float("mse_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    forward<T>(SquaredError<T>{}, x, target, result, shape, stream);
  });
}

void mse_backward(const Buffer& x, const Buffer& target, const Buffer& grad_loss,
                  const GradientTarget& grad_x, MatrixShape shape, Stream stream) {
  detail::check_pointwise_backward("mse_backward", x, target, grad_loss, grad_x.buffer, shape);
  detail::dispatch_float("mse_backward", x.dtype, [&](auto element) {
    using T = decltype(element);
    backward<T>(SquaredError<T>{}, x, target, grad_loss, grad_x, stream);
  });
}

void bce_with_logits_forward(const Buffer& x, const Buffer& target, double pos_weight,
                             const PointwiseLossResult& result, MatrixShape shape, Stream stream) {
  detail::check_pointwise_loss("bce_with_logits_forward", x, target, result, shape);
  detail::dispatch_float("bce_with_logits_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    forward<T>(BinaryCrossEntropy<T>{static_cast<T>(pos_weight)}, x, target, result, shape, stream);
  });
}

void bce_with_logits_backward(const Buffer& x, const Buffer& target, double pos_weight,
                              const Buffer& grad_loss, const GradientTarget& grad_x,
                              MatrixShape shape, Stream stream) {
  detail::check_pointwise_backward("bce_with_logits_backward", x, target, grad_loss, grad_x.buffer,
                                   shape);
  detail::dispatch_float("bce_with_logits_backward", x.dtype, [&](auto element) {
    using T = decltype(element);
    backward<T>(BinaryCrossEntropy<T>{static_cast<T>(pos_weight)}, x, target, grad_loss, grad_x,
                stream);
  });
}

}  // namespace ddp::cu
