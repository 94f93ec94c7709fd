// SPDX-License-Identifier: MIT
#include "ddp/kernels/binary.h"

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/binary_functions.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {

void binary(const Buffer& a, const Buffer& b, const GradientTarget& y, const BinaryFunction& f) {
  detail::check_binary(a, b, y.buffer);
  detail::dispatch_float("binary", a.dtype, [&](auto element) {
    using T = decltype(element);
    const T* left = static_cast<const T*>(a.data);
    const T* right = static_cast<const T*>(b.data);
    T* out = static_cast<T*>(y.buffer.data);
    detail::with_binary<T>(f, [&](const auto& function) {
      vectorised([=, mode = y.mode, count = a.count] {
        detail::write_each(out, mode, count,
                           [=](std::size_t i) { return function(left[i], right[i]); });
      });
    });
  });
}

}  // namespace ddp::cpu
