// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace ddp {

// A random permutation of 0 .. n-1, bit for bit that of torch.randperm(n) on the CPU with a
// generator seeded by manual_seed(seed). The engine uses the low 32 bits of the seed, so pass a
// negative Python seed as its two's complement. Throws std::invalid_argument if n is negative.
[[nodiscard]] std::vector<std::int64_t> randperm(std::int64_t n, std::uint64_t seed);

}  // namespace ddp
