// SPDX-License-Identifier: MIT
//
// One block sums one row, in a fixed order, so that equal inputs give equal bits.
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/detail/mean.cuh"
#include "ddp/kernels/detail/pointwise_loss_functions.h"
#include "ddp/kernels/pointwise_loss.h"

namespace ddp::cu {
namespace {

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
  const T scale = Loss::kSlopeFactor * (*grad_loss / static_cast<T>(count));
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

void pointwise_loss_forward(const Buffer& x, const Buffer& target,
                            const PointwiseLossResult& result, MatrixShape shape,
                            const PointwiseLoss& f, Stream stream) {
  detail::check_pointwise_loss(x, target, result, shape);
  detail::dispatch_pointwise_loss(
      "pointwise_loss_forward", x.dtype, f, [&](const auto& loss, auto element) {
        forward<decltype(element)>(loss, x, target, result, shape, stream);
      });
}

void pointwise_loss_backward(const Buffer& x, const Buffer& target, const Buffer& grad_loss,
                             const GradientTarget& grad_x, MatrixShape shape,
                             const PointwiseLoss& f, Stream stream) {
  detail::check_pointwise_backward(x, target, grad_loss, grad_x.buffer, shape);
  detail::dispatch_pointwise_loss(
      "pointwise_loss_backward", x.dtype, f, [&](const auto& loss, auto element) {
        backward<decltype(element)>(loss, x, target, grad_loss, grad_x, stream);
      });
}

}  // namespace ddp::cu
