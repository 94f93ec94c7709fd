// SPDX-License-Identifier: MIT
#include "ddp/kernels/unary.h"

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/unary_functions.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {

void unary_forward(const Buffer& x, const Buffer& y, const UnaryFunction& f) {
  detail::require_memory("unary_forward", "x", x);
  detail::require("unary_forward", "y", y, x);
  detail::dispatch_unary("unary_forward", x.dtype, f, [&](const auto& function, auto element) {
    using T = decltype(element);
    const T* in = static_cast<const T*>(x.data);
    T* out = static_cast<T*>(y.data);
    vectorised([=, count = x.count] {
      detail::write_each(out, WriteMode::kOverwrite, count,
                         [=](std::size_t i) { return function.value(in[i]); });
    });
  });
}

void unary_backward(const Buffer& kept, const Buffer& grad_y, const GradientTarget& grad_x,
                    const UnaryFunction& f) {
  detail::require_memory("unary_backward", "the kept tensor", kept);
  detail::require("unary_backward", "grad_y", grad_y, kept);
  detail::require("unary_backward", "grad_x", grad_x.buffer, kept);
  detail::dispatch_unary("unary_backward", kept.dtype, f, [&](const auto& function, auto element) {
    using T = decltype(element);
    const T* of = static_cast<const T*>(kept.data);
    const T* incoming = static_cast<const T*>(grad_y.data);
    T* target = static_cast<T*>(grad_x.buffer.data);
    vectorised([=, mode = grad_x.mode, count = kept.count] {
      detail::write_each(target, mode, count,
                         [=](std::size_t i) { return function.gradient(of[i], incoming[i]); });
    });
  });
}

}  // namespace ddp::cpu
