// SPDX-License-Identifier: MIT
#include "ddp/kernels/channel_moments.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ddp/kernels/detail/batch_norm_checks.h"
#include "ddp/kernels/detail/channel_loops.h"

namespace ddp::cpu {
namespace {

double square(double x) { return x * x; }

}  // namespace

void channel_moments(const Buffer& x, const Buffer& moments, const ChannelShape& shape) {
  detail::check_channel_moments(x, moments, shape);
  const std::span<double> all = moments.as<double>();
  std::ranges::fill(all, 0);
  if (x.count == 0) return;
  const auto sums = all.first(shape.channels);
  const auto squares = all.subspan(shape.channels, shape.channels);
  const auto n = static_cast<double>(shape.per_channel());
  all.back() = n;
  detail::dispatch_float("channel_moments", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* const first_planes = static_cast<const T*>(x.data);
    const auto terms_of = [=, plane = shape.plane](std::size_t c, std::size_t offset) {
      return [in = first_planes + offset, origin = first_planes[c * plane]](std::size_t i) {
        const auto distance = static_cast<double>(in[i] - origin);
        return detail::TwoSums{distance, square(distance)};
      };
    };
    detail::add_channel_sums(all.data(), shape, terms_of);
    for (std::size_t c = 0; c < shape.channels; ++c) {
      squares[c] = std::max(squares[c] - square(sums[c]) / n, 0.0);  // in this order NaN stays
      sums[c] = static_cast<double>(first_planes[c * shape.plane]) + sums[c] / n;
    }
  });
}

void merge_moments(const Buffer& parts, const Buffer& moments) {
  const std::size_t part_count = detail::check_merge_moments(parts, moments);
  const std::size_t channels = moments.count / 2;
  const std::span<double> all = moments.as<double>();
  std::ranges::fill(all, 0);
  const auto part = [&](std::size_t p) {
    return std::span<const double>(parts.as<const double>()).subspan(p * all.size(), all.size());
  };
  for (std::size_t p = 0; p < part_count; ++p) all.back() += part(p).back();
  if (all.back() == 0) return;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t p = 0; p < part_count; ++p) all[c] += part(p)[c] * part(p).back();
    all[c] /= all.back();
    for (std::size_t p = 0; p < part_count; ++p) {
      all[channels + c] += part(p)[channels + c] + part(p).back() * square(part(p)[c] - all[c]);
    }
  }
}

void moments_to_statistics(const Buffer& moments, double eps, const Buffer& mean,
                           const Buffer& invstd) {
  detail::check_statistics("moments_to_statistics", moments, mean, "invstd", invstd);
  const auto all = moments.as<const double>();
  const double n = all.back();
  detail::dispatch_float("moments_to_statistics", mean.dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t c = 0; c < mean.count; ++c) {
      const double variance = all[mean.count + c] / n;
      mean.as<T>()[c] = static_cast<T>(all[c]);
      invstd.as<T>()[c] = n == 0 ? T{0} : static_cast<T>(1 / std::sqrt(variance + eps));
    }
  });
}

void track_statistics(const Buffer& moments, std::optional<double> momentum,
                      const RunningStatistics& running) {
  detail::check_track_statistics(moments, running);
  const auto all = moments.as<const double>();
  const double n = all.back();
  if (n == 0) return;
  const auto batches = static_cast<double>(++running.batches.as<std::int64_t>().front());
  const double f = momentum.value_or(1 / batches);
  const std::size_t channels = running.mean.count;
  detail::dispatch_float("track_statistics", running.mean.dtype, [&](auto element) {
    using T = decltype(element);
    const auto move = [f](T& average, double value) {
      average = static_cast<T>((1 - f) * static_cast<double>(average) + f * value);
    };
    for (std::size_t c = 0; c < channels; ++c) {
      move(running.mean.as<T>()[c], all[c]);
      move(running.variance.as<T>()[c], all[channels + c] / std::max(n - 1, 1.0));
    }
  });
}

void variance_to_invstd(const Buffer& variance, double eps, const Buffer& invstd) {
  detail::require_memory("variance_to_invstd", "variance", variance);
  detail::require("variance_to_invstd", "invstd", invstd, variance);
  detail::dispatch_float("variance_to_invstd", variance.dtype, [&](auto element) {
    using T = decltype(element);
    std::ranges::transform(variance.as<const T>(), invstd.as<T>().begin(), [eps](T value) {
      return static_cast<T>(1 / std::sqrt(static_cast<double>(value) + eps));
    });
  });
}

}  // namespace ddp::cpu
