// SPDX-License-Identifier: MIT
//
// One block sums one channel, in a fixed order, so that equal inputs give equal bits.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/channel_moments.h"
#include "ddp/kernels/detail/batch_norm_checks.h"
#include "ddp/kernels/detail/channel_sums.cuh"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

template <class T, class Packs>
__global__ void __launch_bounds__(launch::kChannelThreads)
    channel_moments_kernel(const T* x, double* moments, ChannelShape shape, Packs packs) {
  constexpr int kWidth = Packs::kPackWidth;
  const std::size_t n = shape.batch * shape.plane;
  for (std::size_t c = blockIdx.x; c < shape.channels; c += gridDim.x) {
    const auto origin = elementwise::convert<launch::Compute<T>>(x[c * shape.plane]);
    double sum = 0, squares = 0;
    const auto load = [&](std::size_t at) { return elementwise::pack_at<kWidth>(x, at); };
    launch::visit_channel(packs, c, load, [&](const elementwise::Pack<T, kWidth>& pack) {
#pragma unroll
      for (const T value : pack.lane) {
        const double distance = elementwise::convert<launch::Compute<T>>(value) - origin;
        sum += distance;
        squares += distance * distance;
      }
    });
    sum = launch::block_sum(sum);
    squares = launch::block_sum(squares);
    if (threadIdx.x != 0) continue;
    moments[c] = static_cast<double>(origin) + sum / n;
    const double distances = squares - sum * sum / n;
    moments[shape.channels + c] = distances < 0 ? 0 : distances;  // max() would hide a NaN
    if (c == 0) moments[2 * shape.channels] = static_cast<double>(n);
  }
}

// One thread merges one channel.
__global__ void merge_moments_kernel(const double* parts, std::size_t part_count, double* moments,
                                     std::size_t channels) {
  const std::size_t stride = 2 * channels + 1;
  const auto n_of = [&](std::size_t p) { return parts[p * stride + 2 * channels]; };
  double n = 0;
  for (std::size_t p = 0; p < part_count; ++p) n += n_of(p);
  if (launch::global_thread() == 0) moments[2 * channels] = n;
  for (std::size_t c = launch::global_thread(); c < channels; c += launch::grid_threads()) {
    double mean = 0, squares = 0;
    for (std::size_t p = 0; p < part_count; ++p) mean += parts[p * stride + c] * n_of(p);
    mean = n == 0 ? 0 : mean / n;
    for (std::size_t p = 0; p < part_count; ++p) {
      const double distance = parts[p * stride + c] - mean;
      squares += parts[p * stride + channels + c] + n_of(p) * distance * distance;
    }
    moments[c] = mean;
    moments[channels + c] = squares;
  }
}

template <class T>
__global__ void statistics_kernel(const double* moments, double eps, T* mean, T* invstd,
                                  std::size_t channels) {
  const double n = moments[2 * channels];
  for (std::size_t c = launch::global_thread(); c < channels; c += launch::grid_threads()) {
    mean[c] = static_cast<T>(moments[c]);
    invstd[c] = n == 0 ? T{0} : static_cast<T>(1 / sqrt(moments[channels + c] / n + eps));
  }
}

// Runs as a single block: all threads read the counter before one of them writes it, and only the
// threads of one block can wait for each other.
template <class T>
__global__ void track_kernel(const double* moments, bool has_momentum, double momentum, T* mean,
                             T* variance, std::int64_t* batches, std::size_t channels) {
  const double n = moments[2 * channels];
  if (n == 0) return;
  const std::int64_t count = *batches + 1;
  __syncthreads();
  if (threadIdx.x == 0) *batches = count;
  const double f = has_momentum ? momentum : 1 / static_cast<double>(count);
  const auto move = [f](T& average, double value) {
    average = static_cast<T>((1 - f) * static_cast<double>(average) + f * value);
  };
  for (std::size_t c = threadIdx.x; c < channels; c += launch::kThreads) {
    move(mean[c], moments[c]);
    move(variance[c], moments[channels + c] / max(n - 1, 1.0));
  }
}

template <class T>
__global__ void invstd_kernel(const T* variance, double eps, T* invstd, std::size_t count) {
  for (std::size_t c = launch::global_thread(); c < count; c += launch::grid_threads()) {
    invstd[c] = static_cast<T>(1 / sqrt(static_cast<double>(variance[c]) + eps));
  }
}

}  // namespace

void channel_moments(const Buffer& x, const Buffer& moments, const ChannelShape& shape,
                     Stream stream) {
  detail::check_channel_moments(x, moments, shape);
  if (x.count == 0) return cu::fill(moments, 0, stream);
  const DeviceGuard guard(x.device);
  launch::dispatch_any_float("channel_moments", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* data = static_cast<const T*>(x.data);
    const auto launch_with = [&](auto packs) {
      launch::run_channels(channel_moments_kernel<T, decltype(packs)>, shape.channels, stream, data,
                           static_cast<double*>(moments.data), shape, packs);
    };
    launch::with_channel_packs(shape, launch_with, data);
  });
}

void merge_moments(const Buffer& parts, const Buffer& moments, Stream stream) {
  const std::size_t part_count = detail::check_merge_moments(parts, moments);
  const std::size_t channels = moments.count / 2;
  const DeviceGuard guard(moments.device);
  launch::run(merge_moments_kernel, launch::blocks_for(moments.count), stream,
              static_cast<const double*>(parts.data), part_count,
              static_cast<double*>(moments.data), channels);
}

void moments_to_statistics(const Buffer& moments, double eps, const Buffer& mean,
                           const Buffer& invstd, Stream stream) {
  detail::check_statistics("moments_to_statistics", moments, mean, "invstd", invstd);
  if (mean.count == 0) return;
  const DeviceGuard guard(mean.device);
  detail::dispatch_float("moments_to_statistics", mean.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(statistics_kernel<T>, launch::blocks_for(mean.count), stream,
                static_cast<const double*>(moments.data), eps, static_cast<T*>(mean.data),
                static_cast<T*>(invstd.data), mean.count);
  });
}

void track_statistics(const Buffer& moments, std::optional<double> momentum,
                      const RunningStatistics& running, Stream stream) {
  detail::check_track_statistics(moments, running);
  const DeviceGuard guard(moments.device);
  detail::dispatch_float("track_statistics", running.mean.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(track_kernel<T>, 1, stream, static_cast<const double*>(moments.data),
                momentum.has_value(), momentum.value_or(0), static_cast<T*>(running.mean.data),
                static_cast<T*>(running.variance.data),
                static_cast<std::int64_t*>(running.batches.data), running.mean.count);
  });
}

void variance_to_invstd(const Buffer& variance, double eps, const Buffer& invstd, Stream stream) {
  detail::require("variance_to_invstd", "invstd", invstd, variance);
  if (variance.count == 0) return;
  const DeviceGuard guard(variance.device);
  detail::dispatch_float("variance_to_invstd", variance.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(invstd_kernel<T>, launch::blocks_for(variance.count), stream,
                static_cast<const T*>(variance.data), eps, static_cast<T*>(invstd.data),
                variance.count);
  });
}

}  // namespace ddp::cu
