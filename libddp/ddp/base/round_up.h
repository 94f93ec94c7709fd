// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace ddp {

// The smallest multiple of `unit` that is not less than `value`. The sum of both must not overflow.
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace ddp
