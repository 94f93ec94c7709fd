// SPDX-License-Identifier: MIT
#include <type_traits>

#include "ddp/buffer_ops/elementwise.cuh"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/detail/channel_bias_checks.h"
#include "ddp/kernels/detail/channel_sums.cuh"

namespace ddp::cu {
namespace {

template <class T, class Index>
__global__ void channel_bias_add_kernel(T* y, const T* bias, launch::ChannelOf<Index> channel_of) {
  launch::for_each_index(channel_of.count, [&](Index i) {
    using Compute = elementwise::Compute<T>;
    y[i] = elementwise::convert<T>(elementwise::convert<Compute>(y[i]) +
                                   elementwise::convert<Compute>(bias[channel_of(i)]));
  });
}

template <class T, class Packs>
__global__ void __launch_bounds__(launch::kChannelThreads)
    channel_bias_grad_kernel(const T* grad_y, T* grad_bias, std::size_t channels, WriteMode mode,
                             Packs packs) {
  constexpr int kWidth = Packs::kPackWidth;
  const auto load = [&](std::size_t at) { return elementwise::pack_at<kWidth>(grad_y, at); };
  for (std::size_t channel = blockIdx.x; channel < channels; channel += gridDim.x) {
    T sum = 0;
    launch::visit_channel(packs, channel, load, [&](const elementwise::Pack<T, kWidth>& pack) {
#pragma unroll
      for (const T value : pack.lane) sum += value;
    });
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
      launch::with_channel_of(shape, [&](auto channel_of) {
        launch::run(channel_bias_add_kernel<T, typename decltype(channel_of)::Index>,
                    launch::blocks_for(y.count), stream, static_cast<T*>(y.data),
                    static_cast<const T*>(bias.data), channel_of);
      });
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
    const auto* gradient = static_cast<const T*>(grad_y.data);
    const auto launch_with = [&](auto packs) {
      launch::run_channels(channel_bias_grad_kernel<T, decltype(packs)>, target.count, stream,
                           gradient, static_cast<T*>(target.data), shape.channels, grad_bias.mode,
                           packs);
    };
    launch::with_channel_packs<T>(shape, launch_with, gradient);
  });
}

}  // namespace ddp::cu
