// SPDX-License-Identifier: MIT
//
// Means and variances of channels, in a form in which those of parts of a batch can be joined.
//
// Moments are float64, 2 * channels + 1 of them: each channel's mean, then each channel's sum of
// squared distances from its mean, then how many elements a channel has. All are 0 of no elements.
#pragma once

#include <cstddef>
#include <optional>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

[[nodiscard]] constexpr std::size_t moments_count(std::size_t channels) { return 2 * channels + 1; }

// Averages over the batches so far; each of mean and variance has one element a channel.
struct RunningStatistics {
  Buffer mean;
  Buffer variance;
  Buffer batches;  // int64, one element: how many batches they have seen
};

}  // namespace ddp

namespace ddp::cpu {

// Sums are taken relative to the channel's first element, in float64: the error of a variance is at
// most n roundings of it, whatever the mean.
void channel_moments(const Buffer& x, const Buffer& moments, const ChannelShape& shape);

// The moments of all parts together; `parts` holds those of one after the other. The same bits
// wherever the parts are the same. (Chan, Golub, LeVeque 1983, for any number of parts.)
void merge_moments(const Buffer& parts, const Buffer& moments);

// Of each channel: mean, and invstd = 1 / sqrt(squares / n + eps), which of no elements is 0.
void moments_to_statistics(const Buffer& moments, double eps, const Buffer& mean,
                           const Buffer& invstd);

// running = (1 - f) * running + f * the batch's, whose variance is the unbiased one, squares /
// (n - 1); f is the momentum, or without one 1 / batches, which averages over all of them. A batch
// without elements changes nothing.
void track_statistics(const Buffer& moments, std::optional<double> momentum,
                      const RunningStatistics& running);

// invstd = 1 / sqrt(variance + eps).
void variance_to_invstd(const Buffer& variance, double eps, const Buffer& invstd);

}  // namespace ddp::cpu

namespace ddp::cu {

void channel_moments(const Buffer& x, const Buffer& moments, const ChannelShape& shape,
                     Stream stream);
void merge_moments(const Buffer& parts, const Buffer& moments, Stream stream);
void moments_to_statistics(const Buffer& moments, double eps, const Buffer& mean,
                           const Buffer& invstd, Stream stream);
void track_statistics(const Buffer& moments, std::optional<double> momentum,
                      const RunningStatistics& running, Stream stream);
void variance_to_invstd(const Buffer& variance, double eps, const Buffer& invstd, Stream stream);

}  // namespace ddp::cu
