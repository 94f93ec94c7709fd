// SPDX-License-Identifier: MIT
//
// What the CPU and CUDA versions of dropout share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "ddp/base/random.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/dropout.h"

namespace ddp::detail {

// Elements whose draw is below the threshold are dropped.
constexpr std::uint64_t dropout_threshold(const DropoutMask& mask) {
  return static_cast<std::uint64_t>(mask.probability * 0x1p32);
}

constexpr std::uint64_t dropout_row(const DropoutMask& mask, std::size_t row) {
  return mask.first_row + row * mask.row_stride;
}

// The factor for kept elements.
constexpr double dropout_scale(const DropoutMask& mask) {
  return mask.probability == 1 ? 0 : 1 / (1 - mask.probability);
}

inline void check_dropout(const Buffer& x, const Buffer& y, const DropoutMask& mask,
                          MatrixShape shape) {
  require("dropout", "x", x, like(x, shape.count()));
  require("dropout", "y", y, x);
  if (mask.probability >= 0 && mask.probability <= 1) return;
  throw std::invalid_argument("[kernels] dropout: the probability is " +
                              std::to_string(mask.probability) + ", expected 0 to 1");
}

}  // namespace ddp::detail
