// SPDX-License-Identifier: MIT
#include "ddp/kernels/channel_bias.h"

#include <vector>

#include "ddp/kernels/detail/channel_bias_checks.h"
#include "ddp/kernels/detail/vectorised.h"
#include "ddp/kernels/detail/wide_sums.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {

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
    detail::vectorised([&, sums = of_channels.data()] {
      const T* grad = static_cast<const T*>(grad_y.data);
      for (std::size_t n = 0; n < shape.batch; ++n) {
        for (std::size_t c = 0; c < shape.channels; ++c, grad += shape.plane) {
          sums[c] += detail::wide_sum(shape.plane, [grad](std::size_t i) { return grad[i]; });
        }
      }
    });
    detail::write_each(static_cast<T*>(target.data), grad_bias.mode, shape.channels,
                       [&](std::size_t c) { return static_cast<T>(of_channels[c]); });
  });
}

}  // namespace ddp::cpu
