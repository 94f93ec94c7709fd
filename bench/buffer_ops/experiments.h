// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddp::bench {

// One way to write a loop that sums two operands into one or two targets. `count` is a multiple of
// 16, and all operands are aligned to 64 bytes. targets[1] may be null.
struct SumLoop {
  std::string name;
  void (*run)(const float* a, const float* b, float* const (&targets)[2], std::size_t count);
};

// The first loop is plain. The others are ones that libddp does not use, because they are no
// faster.
[[nodiscard]] std::vector<SumLoop> sum_loops();

}  // namespace ddp::bench
