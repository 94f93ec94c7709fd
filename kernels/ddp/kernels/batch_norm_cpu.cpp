// SPDX-License-Identifier: MIT
//
// Passes over planes in memory order; each pass is limited by memory bandwidth.
#include "ddp/kernels/batch_norm.h"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "ddp/kernels/detail/batch_norm_checks.h"
#include "ddp/kernels/detail/channel_loops.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

// The channels' values, or `fallback` for each of them if the buffer is empty.
template <class T>
std::vector<T> values_or(const Buffer& buffer, std::size_t count, T fallback) {
  if (buffer.count == 0) return std::vector<T>(count, fallback);
  return {buffer.as<const T>().begin(), buffer.as<const T>().end()};
}

template <class T>
std::vector<T> scales_of(const BatchNormOperands& operands) {
  std::vector<T> scales = values_or(operands.weight, operands.invstd.count, T{1});
  std::ranges::transform(operands.invstd.as<const T>(), scales, scales.begin(), std::multiplies());
  return scales;
}

template <class T>
void write_gradient(const GradientTarget& target, const auto& value_of) {
  detail::write_each(static_cast<T*>(target.buffer.data), target.mode, target.buffer.count,
                     [&](std::size_t c) { return static_cast<T>(value_of(c)); });
}

}  // namespace

void batch_norm_forward(const Buffer& x, const BatchNormOperands& operands, const Buffer& bias,
                        const Buffer& y, const ChannelShape& shape) {
  detail::check_batch_norm_forward(x, operands, bias, y, shape);
  detail::dispatch_float("batch_norm_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const std::vector<T> all_scales = scales_of<T>(operands);
    const std::vector<T> all_shifts = values_or(bias, shape.channels, T{0});
    const T* const elements = static_cast<const T*>(x.data);
    const T* const means = static_cast<const T*>(operands.mean.data);
    const T *const scales = all_scales.data(), *const shifts = all_shifts.data();
    const auto value_of = [=](std::size_t c, std::size_t offset) {
      return [in = elements + offset, mean = means[c], scale = scales[c],
              shift = shifts[c]](std::size_t i) { return (in[i] - mean) * scale + shift; };
    };
    detail::write_channels(static_cast<T*>(y.data), WriteMode::kOverwrite, shape, value_of);
  });
}

void batch_norm_sums(const Buffer& x, const Buffer& grad_y, const Buffer& mean, const Buffer& sums,
                     const ChannelShape& shape) {
  detail::check_batch_norm_sums(x, grad_y, mean, sums, shape);
  std::ranges::fill(sums.as<double>(), 0);
  detail::dispatch_float("batch_norm_sums", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* const elements = static_cast<const T*>(x.data);
    const T* const gradients = static_cast<const T*>(grad_y.data);
    const T* const means = static_cast<const T*>(mean.data);
    const auto terms_of = [=](std::size_t c, std::size_t offset) {
      return [in = elements + offset, incoming = gradients + offset,
              origin = means[c]](std::size_t i) {
        const T gradient = incoming[i];
        return detail::TwoSums{static_cast<double>(gradient),
                               static_cast<double>(gradient * (in[i] - origin))};
      };
    };
    detail::add_channel_sums(static_cast<double*>(sums.data), shape, terms_of);
  });
}

void batch_norm_grad_bias(const Buffer& sums, const GradientTarget& grad_bias) {
  const Buffer& target = grad_bias.buffer;
  detail::check_grad_of_channels("batch_norm_grad_bias", sums, target);
  detail::dispatch_float("batch_norm_grad_bias", target.dtype, [&](auto element) {
    write_gradient<decltype(element)>(grad_bias,
                                      [&](std::size_t c) { return sums.as<const double>()[c]; });
  });
}

void batch_norm_grad_weight(const Buffer& sums, const Buffer& invstd,
                            const GradientTarget& grad_weight) {
  const Buffer& target = grad_weight.buffer;
  detail::check_grad_of_channels("batch_norm_grad_weight", sums, target);
  detail::require("batch_norm_grad_weight", "invstd", invstd, target);
  detail::dispatch_float("batch_norm_grad_weight", target.dtype, [&](auto element) {
    using T = decltype(element);
    write_gradient<T>(grad_weight, [&](std::size_t c) {
      return static_cast<double>(invstd.as<const T>()[c]) *
             sums.as<const double>()[target.count + c];
    });
  });
}

void batch_norm_terms(const Buffer& sums, const Buffer& n, const Buffer& invstd,
                      const Buffer& terms) {
  detail::check_batch_norm_terms(sums, n, invstd, terms);
  const double* sum = static_cast<const double*>(sums.data);
  const double count = *static_cast<const double*>(n.data);
  const std::size_t channels = invstd.count;
  detail::dispatch_float("batch_norm_terms", invstd.dtype, [&](auto element) {
    using T = decltype(element);
    const std::span<T> target = terms.as<T>();
    for (std::size_t c = 0; c < channels; ++c) {
      const auto deviation = static_cast<double>(invstd.as<const T>()[c]);
      target[c] = static_cast<T>(count == 0 ? 0 : sum[c] / count);
      target[channels + c] =
          static_cast<T>(count == 0 ? 0 : sum[channels + c] * deviation * deviation / count);
    }
  });
}

void batch_norm_grad_input(const Buffer& x, const Buffer& grad_y, const BatchNormOperands& operands,
                           const Buffer& terms, const GradientTarget& grad_x,
                           const ChannelShape& shape) {
  detail::check_batch_norm_grad_input(x, grad_y, operands, terms, grad_x.buffer, shape);
  detail::dispatch_float("batch_norm_grad_input", x.dtype, [&](auto element) {
    using T = decltype(element);
    const std::vector<T> all_scales = scales_of<T>(operands);
    const T* const scales = all_scales.data();
    const T* const gradients = static_cast<const T*>(grad_y.data);
    T* const target = static_cast<T*>(grad_x.buffer.data);
    if (terms.count == 0) {  // x is not read: an infinite one would give infinity * 0
      const auto plain_value_of = [=](std::size_t c, std::size_t offset) {
        return [incoming = gradients + offset, scale = scales[c]](std::size_t i) {
          return scale * incoming[i];
        };
      };
      return detail::write_channels(target, grad_x.mode, shape, plain_value_of);
    }
    const T* const elements = static_cast<const T*>(x.data);
    const T* const means = static_cast<const T*>(operands.mean.data);
    const T* const shifts = static_cast<const T*>(terms.data);
    const T* const slopes = shifts + shape.channels;
    const auto value_of = [=](std::size_t c, std::size_t offset) {
      return [in = elements + offset, incoming = gradients + offset, mean = means[c],
              scale = scales[c], shift = shifts[c], slope = slopes[c]](std::size_t i) {
        return scale * (incoming[i] - shift - (in[i] - mean) * slope);
      };
    };
    detail::write_channels(target, grad_x.mode, shape, value_of);
  });
}

}  // namespace ddp::cpu
