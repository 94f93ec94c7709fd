// SPDX-License-Identifier: MIT
//
// Passes over planes in memory order; each pass is limited by memory bandwidth.
#include "ddp/kernels/batch_norm.h"

#include <algorithm>
#include <span>

#include "ddp/kernels/detail/batch_norm_checks.h"
#include "ddp/kernels/detail/wide_sums.h"

namespace ddp::cpu {
namespace {

using detail::WideSums;

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

// Adds grad_y, and grad_y * (x - mean).
template <class T>
void add_plane(const T* x, const T* grad_y, std::size_t count, T mean, double& sum,
               double& product) {
  WideSums sums;
  std::size_t i = 0;
  for (; i + WideSums::kLanes <= count; i += WideSums::kLanes) {
    const auto& grad = WideSums::lanes(grad_y + i);
    sums.first += __builtin_convertvector(grad, WideSums::Vector);
    sums.second +=
        __builtin_convertvector(grad * (WideSums::lanes(x + i) - mean), WideSums::Vector);
  }
  for (; i < count; ++i) {
    sum += static_cast<double>(grad_y[i]);
    product += static_cast<double>(grad_y[i] * (x[i] - mean));
  }
  sum += WideSums::total(sums.first);
  product += WideSums::total(sums.second);
}

// grad_x = scale * (grad_y - offset - (x - mean) * slope).
template <class T>
struct GradientOfChannel {
  T mean;
  T scale;
  T offset;
  T slope;
};

// Passed by value and __restrict: gcc only vectorises what it can keep in registers.
template <class T, WriteMode mode>
void grad_input_of_plane(const T* __restrict x, const T* __restrict grad_y, std::size_t count,
                         GradientOfChannel<T> of, T* __restrict grad_x) {
  for (std::size_t i = 0; i < count; ++i) {
    const T gradient = of.scale * (grad_y[i] - of.offset - (x[i] - of.mean) * of.slope);
    grad_x[i] = mode == WriteMode::kAccumulate ? grad_x[i] + gradient : gradient;
  }
}

template <class T>
void write_channels(const GradientTarget& target, const auto& value_of) {
  const std::span<T> elements = target.buffer.as<T>();
  for (std::size_t c = 0; c < elements.size(); ++c) {
    const T value = static_cast<T>(value_of(c));
    elements[c] = target.mode == WriteMode::kAccumulate ? elements[c] + value : value;
  }
}

}  // namespace

void batch_norm_forward(const Buffer& x, const BatchNormOperands& operands, const Buffer& bias,
                        const Buffer& y, const ChannelShape& shape) {
  detail::check_batch_norm_forward(x, operands, bias, y, shape);
  detail::dispatch_float("batch_norm_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    for_each_plane(shape, [&](std::size_t c, std::size_t offset) {
      const T* __restrict in = static_cast<const T*>(x.data) + offset;
      T* __restrict out = static_cast<T*>(y.data) + offset;
      const T mean = operands.mean.as<const T>()[c];
      const T scale = scale_of<T>(operands, c);
      const T shift = element_or(bias, c, T{0});
      for (std::size_t i = 0; i < shape.plane; ++i) out[i] = (in[i] - mean) * scale + shift;
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
      add_plane(static_cast<const T*>(x.data) + offset, static_cast<const T*>(grad_y.data) + offset,
                shape.plane, mean.as<const T>()[c], all[c], all[shape.channels + c]);
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
    const auto run = grad_x.mode == WriteMode::kAccumulate
                         ? grad_input_of_plane<T, WriteMode::kAccumulate>
                         : grad_input_of_plane<T, WriteMode::kOverwrite>;
    for_each_plane(shape, [&](std::size_t c, std::size_t offset) {
      run(static_cast<const T*>(x.data) + offset, static_cast<const T*>(grad_y.data) + offset,
          shape.plane,
          {operands.mean.as<const T>()[c], scale_of<T>(operands, c), element_or(terms, c, T{0}),
           element_or(terms, shape.channels + c, T{0})},
          static_cast<T*>(grad_x.buffer.data) + offset);
    });
  });
}

}  // namespace ddp::cpu
