// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/detail/channel_bias_checks.h"

namespace ddp::cpu {
namespace {

// Sums in a fixed order, in partial sums that the compiler keeps in vectors.
template <class T>
T sum_of(const T* values, std::size_t count) {
  std::array<T, 16> partial{};
  std::size_t i = 0;
  for (; i + partial.size() <= count; i += partial.size()) {
    for (std::size_t l = 0; l < partial.size(); ++l) partial[l] += values[i + l];
  }
  T sum = 0;
  for (; i < count; ++i) sum += values[i];
  for (const T& part : partial) sum += part;
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
    if (grad_bias.mode == WriteMode::kOverwrite) std::ranges::fill(target.as<T>(), T{0});
    const T* grad = static_cast<const T*>(grad_y.data);
    for (std::size_t n = 0; n < shape.batch; ++n) {
      for (T& sum : target.as<T>()) {
        sum += sum_of(grad, shape.plane);
        grad += shape.plane;
      }
    }
  });
}

}  // namespace ddp::cpu
