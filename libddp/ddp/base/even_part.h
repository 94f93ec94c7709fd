// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>

namespace ddp {

struct EvenPart {
  std::size_t begin;
  std::size_t count;
};

// Part `index` of `count` elements that are cut into `parts`, one after the other. The first ones
// have one element more if the parts cannot be equal.
[[nodiscard]] constexpr EvenPart even_part(std::size_t count, std::size_t index,
                                           std::size_t parts) {
  const std::size_t least = count / parts;
  const std::size_t longer = count % parts;
  return {least * index + std::min(longer, index), least + (index < longer ? 1 : 0)};
}

}  // namespace ddp
