// SPDX-License-Identifier: MIT
//
// Functions of two elements.
#pragma once

#include <cstdint>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

enum class BinaryKind : std::uint8_t {
  kSum,       // a + factor * b
  kProduct,   // factor * a * b
  kQuotient,  // factor * a / b
  kMix,       // a + factor * (b - a)
};

struct BinaryFunction {
  BinaryKind kind;
  double factor = 1;
};

}  // namespace ddp

namespace ddp::cpu {

// y = f(a, b), element-wise. Any of them may be the same memory.
void binary(const Buffer& a, const Buffer& b, const GradientTarget& y, const BinaryFunction& f);

}  // namespace ddp::cpu

namespace ddp::cu {

// Also takes 16-bit types, and computes them in float32.
void binary(const Buffer& a, const Buffer& b, const GradientTarget& y, const BinaryFunction& f,
            Stream stream);

}  // namespace ddp::cu
