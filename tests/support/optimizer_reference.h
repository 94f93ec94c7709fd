// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "support/reference.h"

namespace ddp::test::optimizers {

// What tests/reference/make_optimizer_reference.py has written, and the seed of its numbers.
inline const Reference& reference() {
  static const Reference lines = read_reference(DDP_REFERENCE_DIR "/optimizer_reference.txt", 1);
  return lines;
}
inline constexpr std::uint64_t kSeed = 5;

}  // namespace ddp::test::optimizers
