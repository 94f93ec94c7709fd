// SPDX-License-Identifier: MIT
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/check.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/detail/conv2d_checks.h"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

template <class T>
__global__ void channel_bias_add_kernel(T* y, const T* bias, std::size_t count,
                                        std::size_t channels, std::size_t plane) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    y[i] += bias[i / plane % channels];
  }
}

// A block sums a channel: each thread every 256th element of it, then the 256 sums are folded in
// halves. A fixed order, so that equal inputs give equal bits.
template <class T>
__global__ void channel_bias_grad_kernel(const T* grad_y, T* grad_bias, std::size_t batch,
                                         std::size_t channels, std::size_t plane, WriteMode mode) {
  __shared__ T partial[launch::kThreads];
  for (std::size_t channel = blockIdx.x; channel < channels; channel += gridDim.x) {
    T sum = 0;
    for (std::size_t i = threadIdx.x; i < batch * plane; i += launch::kThreads) {
      sum += grad_y[(i / plane * channels + channel) * plane + i % plane];
    }
    partial[threadIdx.x] = sum;
    for (unsigned half = launch::kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x == 0) launch::store(&grad_bias[channel], partial[0], mode);
    __syncthreads();
  }
}

void channel_bias_add(const Buffer& y, const Buffer& bias, std::size_t plane, Stream stream) {
  detail::dispatch_float("conv2d_forward", y.dtype, [&](auto element) {
    using T = decltype(element);
    channel_bias_add_kernel<<<launch::blocks_for(y.count, launch::kThreads), launch::kThreads, 0,
                              launch::native(stream)>>>(
        static_cast<T*>(y.data), static_cast<const T*>(bias.data), y.count, bias.count, plane);
  });
  DDP_CUDA_CHECK(cudaGetLastError());
}

// For what no product contributes to.
void write_zero(const GradientTarget& target, Stream stream) {
  if (target.mode == WriteMode::kOverwrite) cu::fill(target.buffer, 0, stream);
}

}  // namespace

void conv2d_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
                    const Conv2dShape& shape, Conv2dBackend& backend, Stream stream) {
  detail::check_conv2d_forward(x, weight, bias, y, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  if (x.count == 0) {
    cu::fill(y, 0, stream);
  } else {
    backend.forward(x, weight, y, shape, stream);
  }
  channel_bias_add(y, bias, shape.output().count(), stream);
}

void conv2d_grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                       const Conv2dShape& shape, Conv2dBackend& backend, Stream stream) {
  detail::check_conv2d_grad_input(weight, grad_y, grad_x.buffer, shape);
  if (grad_x.buffer.count == 0) return;
  const DeviceGuard guard(grad_y.device);
  if (grad_y.count == 0) return write_zero(grad_x, stream);
  backend.grad_input(weight, grad_y, grad_x, shape, stream);
}

void conv2d_grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                        const Conv2dShape& shape, Conv2dBackend& backend, Stream stream) {
  detail::check_conv2d_grad_weight(x, grad_y, grad_weight.buffer, shape);
  if (grad_weight.buffer.count == 0) return;
  const DeviceGuard guard(grad_y.device);
  if (grad_y.count == 0) return write_zero(grad_weight, stream);
  backend.grad_weight(x, grad_y, grad_weight, shape, stream);
}

void conv2d_grad_bias(const Buffer& grad_y, const GradientTarget& grad_bias,
                      const Conv2dShape& shape, Stream stream) {
  const Buffer& target = grad_bias.buffer;
  detail::check_conv2d_grad_bias(grad_y, target, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("conv2d_grad_bias", target.dtype, [&](auto element) {
    using T = decltype(element);
    channel_bias_grad_kernel<<<launch::blocks_for(target.count, 1), launch::kThreads, 0,
                               launch::native(stream)>>>(
        static_cast<const T*>(grad_y.data), static_cast<T*>(target.data), shape.batch,
        shape.out_channels, shape.output().count(), grad_bias.mode);
  });
  DDP_CUDA_CHECK(cudaGetLastError());
}

}  // namespace ddp::cu
