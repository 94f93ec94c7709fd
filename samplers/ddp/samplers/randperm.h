// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace ddp {

// A random permutation of 0 .. n-1, bit for bit torch.randperm(n) on the CPU with a generator on
// which manual_seed(seed) was called. The engine takes the seed's low 32 bits, so a negative Python
// seed is its two's complement here. Throws std::invalid_argument if n is negative.
[[nodiscard]] std::vector<std::int64_t> randperm(std::int64_t n, std::uint64_t seed);

}  // namespace ddp
