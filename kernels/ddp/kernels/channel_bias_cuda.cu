// SPDX-License-Identifier: MIT
#include <type_traits>

#include "ddp/buffer_ops/elementwise.cuh"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/detail/channel_bias_checks.h"
#include "ddp/kernels/detail/channel_sums.cuh"

namespace ddp::cu {
namespace {

template <class T, class ChannelOf>
__global__ void channel_bias_add_kernel(T* y, const T* bias, ChannelOf channel_of) {
  using Index = typename ChannelOf::Index;
  constexpr int kWidth = ChannelOf::kPackWidth;
  launch::for_each_index(channel_of.count(), [&](Index i) {
    const auto shift = elementwise::convert<launch::Compute<T>>(bias[channel_of(i)]);
    auto pack = launch::load<kWidth>(y, std::size_t{i} * kWidth);
#pragma unroll
    for (auto& lane : pack.lane) lane += shift;
    launch::store<kWidth>(y, std::size_t{i} * kWidth, pack, WriteMode::kOverwrite);
  });
}

template <class T, class Packs>
__global__ void __launch_bounds__(launch::kChannelThreads)
    channel_bias_grad_kernel(const T* grad_y, T* grad_bias, std::size_t channels, WriteMode mode,
                             Packs packs) {
  constexpr int kWidth = Packs::kPackWidth;
  const auto load = [&](std::size_t at) { return elementwise::pack_at<kWidth>(grad_y, at); };
  for (std::size_t channel = blockIdx.x; channel < channels; channel += gridDim.x) {
    using Compute = launch::Compute<T>;
    Compute sum = 0;
    launch::visit_channel(packs, channel, load, [&](const elementwise::Pack<T, kWidth>& pack) {
#pragma unroll
      for (const T value : pack.lane) sum += elementwise::convert<Compute>(value);
    });
    sum = launch::block_sum(sum);
    if (threadIdx.x == 0) launch::store<1>(grad_bias, channel, {sum}, mode);
  }
}

}  // namespace

void channel_bias_add(const Buffer& y, const Buffer& bias, const ChannelShape& shape,
                      Stream stream) {
  detail::check_channel_bias("channel_bias_add", "y", y, bias, shape);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  launch::dispatch_any_float("channel_bias_add", y.dtype, [&](auto element) {
    using T = decltype(element);
    auto* elements = static_cast<T*>(y.data);
    const auto launch_with = [&](auto channel_of) {
      launch::run(channel_bias_add_kernel<T, decltype(channel_of)>,
                  launch::blocks_for(channel_of.count()), stream, elements,
                  static_cast<const T*>(bias.data), channel_of);
    };
    launch::with_channel_of(shape, launch_with, elements);
  });
}

void channel_bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias,
                       const ChannelShape& shape, Stream stream) {
  const Buffer& target = grad_bias.buffer;
  detail::check_channel_bias("channel_bias_grad", "grad_y", grad_y, target, shape);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  launch::dispatch_any_float("channel_bias_grad", target.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* gradient = static_cast<const T*>(grad_y.data);
    const auto launch_with = [&](auto packs) {
      launch::run_channels(channel_bias_grad_kernel<T, decltype(packs)>, target.count, stream,
                           gradient, static_cast<T*>(target.data), shape.channels, grad_bias.mode,
                           packs);
    };
    launch::with_channel_packs(shape, launch_with, gradient);
  });
}

}  // namespace ddp::cu
