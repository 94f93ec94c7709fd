// SPDX-License-Identifier: MIT
#include "ddp/kernels/sigmoid.h"

#include <cmath>

#include "ddp/kernels/detail/checks.h"

namespace ddp::cpu {

void sigmoid_forward(const Buffer& x, const Buffer& y) {
  detail::require("sigmoid_forward", "y", y, x);
  detail::dispatch_float("sigmoid_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(x.data);
    T* out = static_cast<T*>(y.data);
    for (std::size_t i = 0; i < x.count; ++i) out[i] = T{1} / (T{1} + std::exp(-in[i]));
  });
}

void sigmoid_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x) {
  detail::require("sigmoid_backward", "grad_y", grad_y, y);
  detail::require("sigmoid_backward", "grad_x", grad_x.buffer, y);
  detail::dispatch_float("sigmoid_backward", y.dtype, [&](auto element) {
    using T = decltype(element);
    const T* out = static_cast<const T*>(y.data);
    const T* incoming = static_cast<const T*>(grad_y.data);
    T* target = static_cast<T*>(grad_x.buffer.data);
    const bool accumulates = grad_x.mode == WriteMode::kAccumulate;
    for (std::size_t i = 0; i < y.count; ++i) {
      const T gradient = incoming[i] * out[i] * (T{1} - out[i]);
      target[i] = accumulates ? target[i] + gradient : gradient;
    }
  });
}

}  // namespace ddp::cpu
