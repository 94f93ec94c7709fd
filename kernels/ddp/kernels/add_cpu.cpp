// SPDX-License-Identifier: MIT
#include "ddp/kernels/add.h"
#include "ddp/kernels/detail/checks.h"

namespace ddp::cpu {

void add(const Buffer& a, const Buffer& b, const Buffer& y) {
  detail::require("add", "b", b, a);
  detail::require("add", "y", y, a);
  detail::dispatch_float("add", a.dtype, [&](auto element) {
    using T = decltype(element);
    const T* left = static_cast<const T*>(a.data);
    const T* right = static_cast<const T*>(b.data);
    T* sum = static_cast<T*>(y.data);
    for (std::size_t i = 0; i < a.count; ++i) sum[i] = left[i] + right[i];
  });
}

}  // namespace ddp::cpu
