// SPDX-License-Identifier: MIT
#include "ddp/kernels/transpose.h"

#include "ddp/kernels/detail/checks.h"

namespace ddp::cpu {
namespace {

// Writes y in its order, in runs of inner elements.
template <class T, WriteMode mode>
void run(const T* x, T* y, const TransposeShape& shape) {
  const std::size_t first_step = shape.middle * shape.second * shape.inner;
  const std::size_t middle_step = shape.second * shape.inner;
  for (std::size_t o = 0; o < shape.outer; ++o, x += shape.first * first_step) {
    for (std::size_t s = 0; s < shape.second; ++s) {
      for (std::size_t m = 0; m < shape.middle; ++m) {
        for (std::size_t f = 0; f < shape.first; ++f, y += shape.inner) {
          const T* source = x + f * first_step + m * middle_step + s * shape.inner;
          for (std::size_t i = 0; i < shape.inner; ++i) {
            y[i] = mode == WriteMode::kAccumulate ? y[i] + source[i] : source[i];
          }
        }
      }
    }
  }
}

}  // namespace

void transpose(const Buffer& x, const GradientTarget& y, const TransposeShape& shape) {
  detail::require("transpose", "x", x, detail::like(x, shape.count()));
  detail::require("transpose", "y", y.buffer, x);
  detail::dispatch_float("transpose", x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto run_mode = y.mode == WriteMode::kAccumulate ? run<T, WriteMode::kAccumulate>
                                                           : run<T, WriteMode::kOverwrite>;
    run_mode(static_cast<const T*>(x.data), static_cast<T*>(y.buffer.data), shape);
  });
}

}  // namespace ddp::cpu
