// SPDX-License-Identifier: MIT
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/relu.h"

namespace ddp::cpu {
namespace {

// Passed by value: reading the gradient only where y is positive would need a branch, which cannot
// be predicted and prevents vectorisation.
template <class T>
T gated(T y, T grad_y) {
  return y <= T{0} ? T{0} : grad_y;
}

}  // namespace

void relu_forward(const Buffer& x, const Buffer& y) {
  detail::require("relu_forward", "y", y, x);
  detail::dispatch_float("relu_forward", x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(x.data);
    T* out = static_cast<T*>(y.data);
    for (std::size_t i = 0; i < x.count; ++i) out[i] = in[i] < T{0} ? T{0} : in[i];
  });
}

void relu_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x) {
  detail::require("relu_backward", "grad_y", grad_y, y);
  detail::require("relu_backward", "grad_x", grad_x.buffer, y);
  detail::dispatch_float("relu_backward", y.dtype, [&](auto element) {
    using T = decltype(element);
    const T* out = static_cast<const T*>(y.data);
    const T* incoming = static_cast<const T*>(grad_y.data);
    T* target = static_cast<T*>(grad_x.buffer.data);
    if (grad_x.mode == WriteMode::kAccumulate) {
      for (std::size_t i = 0; i < y.count; ++i) target[i] += gated(out[i], incoming[i]);
    } else {
      for (std::size_t i = 0; i < y.count; ++i) target[i] = gated(out[i], incoming[i]);
    }
  });
}

}  // namespace ddp::cpu
