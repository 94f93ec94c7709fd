// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace ddp::emulation {

// Memory that CUDA has given out: device memory and pinned host memory. The rest is pageable.

// Holds poison: no one may count on zeros. Null if `size_bytes` is more than a device has.
[[nodiscard]] void* allocate(std::size_t size_bytes);
// False if it was not given out.
[[nodiscard]] bool release(void* data);

enum class Range { kInside, kPageable, kBeyond };

// Whether [data, data + size_bytes) lies inside an allocation, in none, or goes beyond its end.
[[nodiscard]] Range classify(const void* data, std::size_t size_bytes);

}  // namespace ddp::emulation
