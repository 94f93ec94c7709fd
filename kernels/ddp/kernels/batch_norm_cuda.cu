// SPDX-License-Identifier: MIT
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/batch_norm.h"
#include "ddp/kernels/detail/batch_norm_checks.h"
#include "ddp/kernels/detail/channel_sums.cuh"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

// Each pointer has one element per channel, and is null if the operand is empty.
template <class T>
struct Channels {
  const T* mean;
  const T* invstd;
  const T* weight;

  __device__ T scale(std::size_t c) const { return weight ? invstd[c] * weight[c] : invstd[c]; }
};

template <class T>
const T* pointer_or_null(const Buffer& buffer) {
  return buffer.count == 0 ? nullptr : static_cast<const T*>(buffer.data);
}

template <class T>
Channels<T> channels_of(const BatchNormOperands& operands) {
  return {static_cast<const T*>(operands.mean.data), static_cast<const T*>(operands.invstd.data),
          pointer_or_null<T>(operands.weight)};
}

template <class T, class ChannelOf, class C = launch::Compute<T>>
__global__ void batch_norm_kernel(const T* x, Channels<C> of, const C* bias, T* y,
                                  ChannelOf channel_of) {
  using Index = typename ChannelOf::Index;
  constexpr int kWidth = ChannelOf::kPackWidth;
  launch::for_each_index(channel_of.count(), [&](Index i) {
    const Index c = channel_of(i);
    const C mean = of.mean[c], scale = of.scale(c), shift = bias ? bias[c] : C{0};
    auto pack = launch::load<kWidth>(x, std::size_t{i} * kWidth);
#pragma unroll
    for (C& lane : pack.lane) lane = (lane - mean) * scale + shift;
    launch::store<kWidth>(y, std::size_t{i} * kWidth, pack, WriteMode::kOverwrite);
  });
}

// What batch_norm_sums() reads at a time.
template <class T, int kWidth>
struct SumOperands {
  elementwise::Pack<T, kWidth> x, grad_y;
};

template <class T, class Packs, class C = launch::Compute<T>>
__global__ void __launch_bounds__(launch::kChannelThreads)
    batch_norm_sums_kernel(const T* x, const T* grad_y, const C* mean, double* sums,
                           std::size_t channels, Packs packs) {
  constexpr int kWidth = Packs::kPackWidth;
  const auto load = [&](std::size_t at) {
    return SumOperands<T, kWidth>{elementwise::pack_at<kWidth>(x, at),
                                  elementwise::pack_at<kWidth>(grad_y, at)};
  };
  for (std::size_t c = blockIdx.x; c < channels; c += gridDim.x) {
    const C centre = mean[c];
    double sum = 0, product = 0;
    launch::visit_channel(packs, c, load, [&](const SumOperands<T, kWidth>& read) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const C gradient = elementwise::convert<C>(read.grad_y.lane[k]);
        const C distance = elementwise::convert<C>(read.x.lane[k]) - centre;
        sum += static_cast<double>(gradient);
        product += static_cast<double>(gradient * distance);
      }
    });
    sum = launch::block_sum(sum);
    product = launch::block_sum(product);
    if (threadIdx.x != 0) continue;
    sums[c] = sum;
    sums[channels + c] = product;
  }
}

// grad[c] = sums[c] * scale[c], or sums[c] if scale is null.
template <class T>
__global__ void grad_of_channels_kernel(const double* sums, const T* scale, T* grad,
                                        std::size_t channels, WriteMode mode) {
  for (std::size_t c = launch::global_thread(); c < channels; c += launch::grid_threads()) {
    const double factor = scale ? static_cast<double>(scale[c]) : 1;
    launch::store(&grad[c], static_cast<T>(factor * sums[c]), mode);
  }
}

template <class T>
__global__ void terms_kernel(const double* sums, const double* n, const T* invstd, T* terms,
                             std::size_t channels) {
  for (std::size_t c = launch::global_thread(); c < channels; c += launch::grid_threads()) {
    const double deviation = static_cast<double>(invstd[c]);
    terms[c] = static_cast<T>(*n == 0 ? 0 : sums[c] / *n);
    terms[channels + c] =
        static_cast<T>(*n == 0 ? 0 : sums[channels + c] * deviation * deviation / *n);
  }
}

template <class T, class ChannelOf, class C = launch::Compute<T>>
__global__ void grad_input_kernel(const T* x, const T* grad_y, Channels<C> of, const C* terms,
                                  T* grad_x, ChannelOf channel_of, WriteMode mode) {
  using Index = typename ChannelOf::Index;
  constexpr int kWidth = ChannelOf::kPackWidth;
  launch::for_each_index(channel_of.count(), [&](Index i) {
    const Index c = channel_of(i);
    const C scale = of.scale(c);
    auto gradient = launch::load<kWidth>(grad_y, std::size_t{i} * kWidth);
    if (terms) {
      const C mean = of.mean[c], shift = terms[c], slope = terms[channel_of.channels() + c];
      const auto input = launch::load<kWidth>(x, std::size_t{i} * kWidth);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        gradient.lane[k] -= shift + (input.lane[k] - mean) * slope;
      }
    }
#pragma unroll
    for (C& lane : gradient.lane) lane *= scale;
    launch::store<kWidth>(grad_x, std::size_t{i} * kWidth, gradient, mode);
  });
}

template <class T>
void launch_grad_of_channels(const double* sums, const T* scale, const GradientTarget& grad,
                             Stream stream) {
  const Buffer& target = grad.buffer;
  launch::run(grad_of_channels_kernel<T>, launch::blocks_for(target.count), stream, sums, scale,
              static_cast<T*>(target.data), target.count, grad.mode);
}

}  // namespace

void batch_norm_forward(const Buffer& x, const BatchNormOperands& operands, const Buffer& bias,
                        const Buffer& y, const ChannelShape& shape, Stream stream) {
  detail::check_batch_norm_forward(x, operands, bias, y, shape);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  launch::dispatch_any_float("batch_norm_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    using C = launch::Compute<T>;
    const auto* in = static_cast<const T*>(x.data);
    auto* out = static_cast<T*>(y.data);
    const auto launch_with = [&](auto channel_of) {
      launch::run(batch_norm_kernel<T, decltype(channel_of)>,
                  launch::blocks_for(channel_of.count()), stream, in, channels_of<C>(operands),
                  pointer_or_null<C>(bias), out, channel_of);
    };
    launch::with_channel_of(shape, launch_with, in, out);
  });
}

void batch_norm_sums(const Buffer& x, const Buffer& grad_y, const Buffer& mean, const Buffer& sums,
                     const ChannelShape& shape, Stream stream) {
  detail::check_batch_norm_sums(x, grad_y, mean, sums, shape);
  if (x.count == 0) return cu::fill(sums, 0, stream);
  const DeviceGuard guard(x.device);
  launch::dispatch_any_float("batch_norm_sums", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* data = static_cast<const T*>(x.data);
    const auto* gradient = static_cast<const T*>(grad_y.data);
    const auto launch_with = [&](auto packs) {
      launch::run_channels(batch_norm_sums_kernel<T, decltype(packs)>, shape.channels, stream, data,
                           gradient, static_cast<const launch::Compute<T>*>(mean.data),
                           static_cast<double*>(sums.data), shape.channels, packs);
    };
    launch::with_channel_packs(shape, launch_with, data, gradient);
  });
}

void batch_norm_grad_bias(const Buffer& sums, const GradientTarget& grad_bias, Stream stream) {
  const Buffer& target = grad_bias.buffer;
  detail::check_grad_of_channels("batch_norm_grad_bias", sums, target);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("batch_norm_grad_bias", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch_grad_of_channels<T>(static_cast<const double*>(sums.data), nullptr, grad_bias, stream);
  });
}

void batch_norm_grad_weight(const Buffer& sums, const Buffer& invstd,
                            const GradientTarget& grad_weight, Stream stream) {
  const Buffer& target = grad_weight.buffer;
  detail::check_grad_of_channels("batch_norm_grad_weight", sums, target);
  detail::require("batch_norm_grad_weight", "invstd", invstd, target);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("batch_norm_grad_weight", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch_grad_of_channels<T>(static_cast<const double*>(sums.data) + target.count,
                               static_cast<const T*>(invstd.data), grad_weight, stream);
  });
}

void batch_norm_terms(const Buffer& sums, const Buffer& n, const Buffer& invstd,
                      const Buffer& terms, Stream stream) {
  detail::check_batch_norm_terms(sums, n, invstd, terms);
  if (invstd.count == 0) return;
  const DeviceGuard guard(invstd.device);
  detail::dispatch_float("batch_norm_terms", invstd.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(terms_kernel<T>, launch::blocks_for(invstd.count), stream,
                static_cast<const double*>(sums.data), static_cast<const double*>(n.data),
                static_cast<const T*>(invstd.data), static_cast<T*>(terms.data), invstd.count);
  });
}

void batch_norm_grad_input(const Buffer& x, const Buffer& grad_y, const BatchNormOperands& operands,
                           const Buffer& terms, const GradientTarget& grad_x,
                           const ChannelShape& shape, Stream stream) {
  const Buffer& target = grad_x.buffer;
  detail::check_batch_norm_grad_input(x, grad_y, operands, terms, target, shape);
  if (x.count == 0) return;
  const DeviceGuard guard(x.device);
  launch::dispatch_any_float("batch_norm_grad_input", x.dtype, [&](auto element) {
    using T = decltype(element);
    using C = launch::Compute<T>;
    const auto* in = static_cast<const T*>(x.data);
    const auto* gradient = static_cast<const T*>(grad_y.data);
    auto* out = static_cast<T*>(target.data);
    const auto launch_with = [&](auto channel_of) {
      launch::run(grad_input_kernel<T, decltype(channel_of)>,
                  launch::blocks_for(channel_of.count()), stream, in, gradient,
                  channels_of<C>(operands), pointer_or_null<C>(terms), out, channel_of,
                  grad_x.mode);
    };
    launch::with_channel_of(shape, launch_with, in, gradient, out);
  });
}

}  // namespace ddp::cu
