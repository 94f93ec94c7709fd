// SPDX-License-Identifier: MIT
//
// Passes over planes in memory order; each pass is limited by memory bandwidth.
#include "ddp/kernels/batch_norm.h"

#include <algorithm>
#include <span>

#include "ddp/kernels/detail/batch_norm_checks.h"
#include "ddp/kernels/detail/vectorised.h"
#include "ddp/kernels/detail/wide_sums.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

// Calls f(c, offset of the plane) for each plane in memory.
template <class F>
void for_each_plane(const ChannelShape& shape, const F& f) {
  std::size_t offset = 0;
  for (std::size_t sample = 0; sample < shape.batch; ++sample) {
    for (std::size_t c = 0; c < shape.channels; ++c, offset += shape.plane) f(c, offset);
  }
}

template <class T>
T element_or(const Buffer& buffer, std::size_t i, T fallback) {
  return buffer.count == 0 ? fallback : buffer.as<const T>()[i];
}

template <class T>
T scale_of(const BatchNormOperands& operands, std::size_t c) {
  return operands.invstd.as<const T>()[c] * element_or(operands.weight, c, T{1});
}

template <class T>
void write_channels(const GradientTarget& target, const auto& value_of) {
  detail::write_each(static_cast<T*>(target.buffer.data), target.mode, target.buffer.count,
                     [&](std::size_t c) { return static_cast<T>(value_of(c)); });
}

}  // namespace

void batch_norm_forward(const Buffer& x, const BatchNormOperands& operands, const Buffer& bias,
                        const Buffer& y, const ChannelShape& shape) {
  detail::check_batch_norm_forward(x, operands, bias, y, shape);
  detail::dispatch_float("batch_norm_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    for_each_plane(shape, [&](std::size_t c, std::size_t offset) {
      const T* in = static_cast<const T*>(x.data) + offset;
      T* out = static_cast<T*>(y.data) + offset;
      const T mean = operands.mean.as<const T>()[c];
      const T scale = scale_of<T>(operands, c);
      const T shift = element_or(bias, c, T{0});
      detail::vectorised([=, plane = shape.plane] {
        detail::write_each(out, WriteMode::kOverwrite, plane,
                           [=](std::size_t i) { return (in[i] - mean) * scale + shift; });
      });
    });
  });
}

void batch_norm_sums(const Buffer& x, const Buffer& grad_y, const Buffer& mean, const Buffer& sums,
                     const ChannelShape& shape) {
  detail::check_batch_norm_sums(x, grad_y, mean, sums, shape);
  const std::span<double> all = sums.as<double>();
  std::ranges::fill(all, 0);
  detail::dispatch_float("batch_norm_sums", x.dtype, [&](auto element) {
    using T = decltype(element);
    for_each_plane(shape, [&](std::size_t c, std::size_t offset) {
      const T* in = static_cast<const T*>(x.data) + offset;
      const T* incoming = static_cast<const T*>(grad_y.data) + offset;
      const T origin = mean.as<const T>()[c];
      detail::TwoSums of_plane{};
      detail::vectorised([=, plane = shape.plane, &of_plane] {
        of_plane = detail::wide_sums(
            plane, [=](std::size_t i) { return incoming[i]; },
            [=](std::size_t i) { return incoming[i] * (in[i] - origin); });
      });
      all[c] += of_plane.first;
      all[shape.channels + c] += of_plane.second;
    });
  });
}

void batch_norm_grad_bias(const Buffer& sums, const GradientTarget& grad_bias) {
  const Buffer& target = grad_bias.buffer;
  detail::check_grad_of_channels("batch_norm_grad_bias", sums, target);
  detail::dispatch_float("batch_norm_grad_bias", target.dtype, [&](auto element) {
    write_channels<decltype(element)>(grad_bias,
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
    write_channels<T>(grad_weight, [&](std::size_t c) {
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
    for_each_plane(shape, [&](std::size_t c, std::size_t offset) {
      const T* in = static_cast<const T*>(x.data) + offset;
      const T* incoming = static_cast<const T*>(grad_y.data) + offset;
      T* target = static_cast<T*>(grad_x.buffer.data) + offset;
      const T mean = operands.mean.as<const T>()[c];
      const T scale = scale_of<T>(operands, c);
      const T shift = element_or(terms, c, T{0});
      const T slope = element_or(terms, shape.channels + c, T{0});
      detail::vectorised([=, mode = grad_x.mode, plane = shape.plane] {
        detail::write_each(target, mode, plane, [=](std::size_t i) {
          return scale * (incoming[i] - shift - (in[i] - mean) * slope);
        });
      });
    });
  });
}

}  // namespace ddp::cpu
