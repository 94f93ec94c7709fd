// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/batch_norm.h"
#include "ddp/kernels/channel_moments.h"
#include "ddp/kernels/detail/checks.h"

namespace ddp::detail {

inline std::size_t channels_of(const char* kernel, const Buffer& moments) {
  const std::size_t channels = moments.count / 2;
  require(kernel, "moments", moments, like(moments, moments_count(channels), DType::kFloat64));
  return channels;
}

inline void check_channel_moments(const Buffer& x, const Buffer& moments,
                                  const ChannelShape& shape) {
  require("channel_moments", "x", x, like(x, shape.count()));
  require("channel_moments", "moments", moments,
          like(x, moments_count(shape.channels), DType::kFloat64));
}

// Returns how many parts there are.
inline std::size_t check_merge_moments(const Buffer& parts, const Buffer& moments) {
  channels_of("merge_moments", moments);
  const std::size_t count = parts.count / moments.count;
  require("merge_moments", "parts", parts, like(moments, count * moments.count));
  return count;
}

inline void check_statistics(const char* kernel, const Buffer& moments, const Buffer& mean,
                             const char* second_name, const Buffer& second) {
  require(kernel, "mean", mean, like(moments, channels_of(kernel, moments), mean.dtype));
  require(kernel, second_name, second, mean);
}

inline void check_track_statistics(const Buffer& moments, const RunningStatistics& running) {
  check_statistics("track_statistics", moments, running.mean, "variance", running.variance);
  require("track_statistics", "batches", running.batches, like(moments, 1, DType::kInt64));
}

inline void check_optional(const char* kernel, const char* operand, const Buffer& buffer,
                           const Buffer& expected) {
  if (buffer.count != 0) require(kernel, operand, buffer, expected);
}

// An operand with one element per channel.
inline Buffer of_channels(const Buffer& x, std::size_t count) {
  return like(x, count, widened(x.dtype));
}

inline void check_operands(const char* kernel, const Buffer& x, const BatchNormOperands& operands,
                           const ChannelShape& shape) {
  require(kernel, "x", x, like(x, shape.count()));
  require(kernel, "mean", operands.mean, of_channels(x, shape.channels));
  require(kernel, "invstd", operands.invstd, of_channels(x, shape.channels));
  check_optional(kernel, "weight", operands.weight, of_channels(x, shape.channels));
}

inline void check_batch_norm_forward(const Buffer& x, const BatchNormOperands& operands,
                                     const Buffer& bias, const Buffer& y,
                                     const ChannelShape& shape) {
  check_operands("batch_norm_forward", x, operands, shape);
  check_optional("batch_norm_forward", "bias", bias, of_channels(x, shape.channels));
  require("batch_norm_forward", "y", y, x);
}

inline void check_batch_norm_sums(const Buffer& x, const Buffer& grad_y, const Buffer& mean,
                                  const Buffer& sums, const ChannelShape& shape) {
  require("batch_norm_sums", "x", x, like(x, shape.count()));
  require("batch_norm_sums", "grad_y", grad_y, x);
  require("batch_norm_sums", "mean", mean, of_channels(x, shape.channels));
  require("batch_norm_sums", "sums", sums, like(x, 2 * shape.channels, DType::kFloat64));
}

inline void check_grad_of_channels(const char* kernel, const Buffer& sums, const Buffer& target) {
  require_memory(kernel, "the target", target);
  require(kernel, "sums", sums, like(target, 2 * target.count, DType::kFloat64));
}

inline void check_batch_norm_terms(const Buffer& sums, const Buffer& n, const Buffer& invstd,
                                   const Buffer& terms) {
  require_memory("batch_norm_terms", "invstd", invstd);
  require("batch_norm_terms", "sums", sums, like(invstd, 2 * invstd.count, DType::kFloat64));
  require("batch_norm_terms", "n", n, like(invstd, 1, DType::kFloat64));
  require("batch_norm_terms", "terms", terms, like(invstd, 2 * invstd.count));
}

inline void check_batch_norm_grad_input(const Buffer& x, const Buffer& grad_y,
                                        const BatchNormOperands& operands, const Buffer& terms,
                                        const Buffer& grad_x, const ChannelShape& shape) {
  check_operands("batch_norm_grad_input", x, operands, shape);
  require("batch_norm_grad_input", "grad_y", grad_y, x);
  require("batch_norm_grad_input", "grad_x", grad_x, x);
  check_optional("batch_norm_grad_input", "terms", terms, of_channels(x, 2 * shape.channels));
}

}  // namespace ddp::detail
