// SPDX-License-Identifier: MIT
//
// Functions of one element.
#pragma once

#include <cstdint>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

enum class UnaryKind : std::uint8_t {
  kAbs,        // |x|; slope 0 at 0
  kAffine,     // a * x + b
  kClamp,      // min(max(x, a), b); slope 1 from a to b, both included
  kExp,        // exp(x)
  kGelu,       // x * (1 + erf(x / sqrt(2))) / 2
  kGeluTanh,   // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
  kLeakyRelu,  // x > 0 ? x : a * x; slope a at 0
  kLog,        // the natural logarithm
  kRelu,       // max(x, 0); slope 0 at 0
  kSigmoid,    // 1 / (1 + exp(-x))
  kSilu,       // x * sigmoid(x)
  kSoftplus,   // log(1 + exp(x)), which does not overflow
  kSqrt,       // the square root
  kSquare,     // x * x
  kTanh,       // the hyperbolic tangent
};

struct UnaryFunction {
  UnaryKind kind;
  double a = 0;
  double b = 0;
};

// Whether the slope is computed from the function's value, so that x need not be kept.
[[nodiscard]] constexpr bool is_slope_of_value(UnaryKind kind) {
  return kind == UnaryKind::kExp || kind == UnaryKind::kRelu || kind == UnaryKind::kSigmoid ||
         kind == UnaryKind::kSqrt || kind == UnaryKind::kTanh;
}

}  // namespace ddp

namespace ddp::cpu {

// y = f(x), element-wise; NaN stays NaN. x and y may be the same memory.
void unary_forward(const Buffer& x, const Buffer& y, const UnaryFunction& f);
// grad_x = grad_y * slope. `kept` is y if is_slope_of_value(), otherwise x.
void unary_backward(const Buffer& kept, const Buffer& grad_y, const GradientTarget& grad_x,
                    const UnaryFunction& f);

}  // namespace ddp::cpu

namespace ddp::cu {

// All also take 16-bit types, and compute them in float32.
void unary_forward(const Buffer& x, const Buffer& y, const UnaryFunction& f, Stream stream);
void unary_backward(const Buffer& kept, const Buffer& grad_y, const GradientTarget& grad_x,
                    const UnaryFunction& f, Stream stream);

}  // namespace ddp::cu
