// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddp::bench {

// One way to write a sum of two operands to one or two targets, of a multiple of 16 floats each,
// aligned to 64 bytes. targets[1] may be null.
struct SumLoop {
  std::string name;
  void (*run)(const float* a, const float* b, float* const (&targets)[2], std::size_t count);
};

// The first is plain; the others are what libddp has not, because they are not faster.
[[nodiscard]] std::vector<SumLoop> sum_loops();

}  // namespace ddp::bench
