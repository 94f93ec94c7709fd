// SPDX-License-Identifier: MIT
#include <type_traits>

#include "ddp/buffer_ops/elementwise.cuh"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/detail/channel_bias_checks.h"
#include "ddp/kernels/detail/channel_sums.cuh"

namespace ddp::cu {
namespace {

template <class T>
__global__ void channel_bias_add_kernel(T* y, const T* bias, std::size_t count,
                                        std::size_t channels, std::size_t plane) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    using Compute = elementwise::Compute<T>;
    y[i] = elementwise::convert<T>(elementwise::convert<Compute>(y[i]) +
                                   elementwise::convert<Compute>(bias[i / plane % channels]));
  }
}

// One block sums one channel, in a fixed order, so that equal inputs give equal bits.
template <class T>
__global__ void channel_bias_grad_kernel(const T* grad_y, T* grad_bias, ChannelShape shape,
                                         WriteMode mode) {
  for (std::size_t channel = blockIdx.x; channel < shape.channels; channel += gridDim.x) {
    T sum = 0;
    launch::visit_channel(shape, channel, [&](std::size_t at) { sum += grad_y[at]; });
    sum = launch::block_sum(sum);
    if (threadIdx.x == 0) launch::store(&grad_bias[channel], sum, mode);
  }
}

}  // namespace

void channel_bias_add(const Buffer& y, const Buffer& bias, const ChannelShape& shape,
                      Stream stream) {
  detail::check_channel_bias("channel_bias_add", "y", y, bias, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  elementwise::dispatch_device(y.dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_integral_v<T>) {
      detail::refuse_dtype("channel_bias_add", y.dtype);
    } else {
      launch::run(channel_bias_add_kernel<T>, launch::blocks_for(y.count), stream,
                  static_cast<T*>(y.data), static_cast<const T*>(bias.data), y.count,
                  shape.channels, shape.plane);
    }
  });
}

void channel_bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias,
                       const ChannelShape& shape, Stream stream) {
  const Buffer& target = grad_bias.buffer;
  detail::check_channel_bias("channel_bias_grad", "grad_y", grad_y, target, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("channel_bias_grad", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run_channels(channel_bias_grad_kernel<T>, target.count, stream,
                         static_cast<const T*>(grad_y.data), static_cast<T*>(target.data), shape,
                         grad_bias.mode);
  });
}

}  // namespace ddp::cu
