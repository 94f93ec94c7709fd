// SPDX-License-Identifier: MIT
//
// Kernels that process many tensors in one launch cut each of them into chunks.
#pragma once

#include <cstddef>

#include "ddp/base/round_up.h"

namespace ddp::detail {

inline constexpr std::size_t kChunkElements = 4096;

[[nodiscard]] constexpr std::size_t chunks_of(std::size_t count) {
  return divide_up(count, kChunkElements);
}

}  // namespace ddp::detail
