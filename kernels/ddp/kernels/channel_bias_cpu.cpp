// SPDX-License-Identifier: MIT
#include "ddp/kernels/channel_bias.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/channel_bias_checks.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

// In a fixed order, in partial sums that the compiler keeps in vectors.
template <class T>
T sum_of(const T* values, std::size_t count) {
  constexpr std::size_t kLanes = 16;
  T lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane];
  }
  T sum = 0;
  for (; i < count; ++i) sum += values[i];
  if (count < kLanes) return sum;
  for (const T lane : lanes) sum += lane;
  return sum;
}

// The sum of a plane. To convert each element would take twice as long, so only sums of runs that
// are too short to lose digits are float64.
template <class T>
double plane_sum(const T* values, std::size_t count) {
  constexpr std::size_t kRun = 256;
  double sum = 0;
  for (std::size_t i = 0; i < count; i += kRun) {
    sum += static_cast<double>(sum_of(values + i, std::min(kRun, count - i)));
  }
  return sum;
}

}  // namespace

void channel_bias_add(const Buffer& y, const Buffer& bias, const ChannelShape& shape) {
  detail::check_channel_bias("channel_bias_add", "y", y, bias, shape);
  detail::dispatch_float("channel_bias_add", y.dtype, [&](auto element) {
    using T = decltype(element);
    T* at = static_cast<T*>(y.data);
    for (std::size_t n = 0; n < shape.batch; ++n) {
      for (const T summand : bias.as<T>()) {
        for (T* const end = at + shape.plane; at != end; ++at) *at += summand;
      }
    }
  });
}

void channel_bias_grad(const Buffer& grad_y, const GradientTarget& grad_bias,
                       const ChannelShape& shape) {
  const Buffer& target = grad_bias.buffer;
  detail::check_channel_bias("channel_bias_grad", "grad_y", grad_y, target, shape);
  detail::dispatch_float("channel_bias_grad", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    std::vector<double> of_channels(shape.channels);
    vectorised([&, sums = of_channels.data()] {
      const T* grad = static_cast<const T*>(grad_y.data);
      for (std::size_t n = 0; n < shape.batch; ++n) {
        for (std::size_t c = 0; c < shape.channels; ++c, grad += shape.plane) {
          sums[c] += plane_sum(grad, shape.plane);
        }
      }
    });
    detail::write_each(static_cast<T*>(target.data), grad_bias.mode, shape.channels,
                       [&](std::size_t c) { return static_cast<T>(of_channels[c]); });
  });
}

}  // namespace ddp::cpu
