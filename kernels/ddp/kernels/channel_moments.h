// SPDX-License-Identifier: MIT
//
// Means and variances of channels, in a form that can be merged over parts of a batch.
//
// Moments are 2 * channels + 1 numbers in float64: each channel's mean, then each channel's sum of
// squared distances from its mean, then the number of elements of a channel. All are 0 for an empty
// x.
#pragma once

#include <cstddef>
#include <optional>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

[[nodiscard]] constexpr std::size_t moments_count(std::size_t channels) {
  return element_count({2, channels}) + 1;
}

// Averages over the batches so far; mean and variance have one element per channel.
struct RunningStatistics {
  Buffer mean;
  Buffer variance;
  Buffer batches;  // int64, one element: the number of batches
};

}  // namespace ddp

namespace ddp::cpu {

// Sums are computed in float64 and of distances from the channel's first element. This keeps the
// error of a variance below n roundings of the variance itself, however large the mean is.
void channel_moments(const Buffer& x, const Buffer& moments, const ChannelShape& shape);

// Computes the moments of all parts together; `parts` holds the moments of one part after the
// other. Equal parts give equal bits. (Chan, Golub, LeVeque 1983, for any number of parts.)
void merge_moments(const Buffer& parts, const Buffer& moments);

// For each channel: mean, and invstd = 1 / sqrt(squares / n + eps), or 0 if n is 0.
void moments_to_statistics(const Buffer& moments, double eps, const Buffer& mean,
                           const Buffer& invstd);

// running = (1 - f) * running + f * the batch's statistic, with the unbiased variance squares / (n
// - 1). f is the momentum, or without one 1 / batches, which averages over all batches. An empty
// batch changes nothing.
void track_statistics(const Buffer& moments, std::optional<double> momentum,
                      const RunningStatistics& running);

// invstd = 1 / sqrt(variance + eps).
void variance_to_invstd(const Buffer& variance, double eps, const Buffer& invstd);

}  // namespace ddp::cpu

namespace ddp::cu {

// Also takes 16-bit types; their sums are in float64, too.
void channel_moments(const Buffer& x, const Buffer& moments, const ChannelShape& shape,
                     Stream stream);
void merge_moments(const Buffer& parts, const Buffer& moments, Stream stream);
void moments_to_statistics(const Buffer& moments, double eps, const Buffer& mean,
                           const Buffer& invstd, Stream stream);
void track_statistics(const Buffer& moments, std::optional<double> momentum,
                      const RunningStatistics& running, Stream stream);
void variance_to_invstd(const Buffer& variance, double eps, const Buffer& invstd, Stream stream);

}  // namespace ddp::cu
