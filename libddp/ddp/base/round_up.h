// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace ddp {

// The quotient, rounded up. The sum of both must not overflow.
[[nodiscard]] constexpr std::size_t divide_up(std::size_t value, std::size_t divisor) {
  return (value + divisor - 1) / divisor;
}

// The smallest multiple of `unit` that is not less than `value`. The sum of both must not overflow.
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return divide_up(value, unit) * unit;
}

}  // namespace ddp
