// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace ddp::emulation {

// The memory that the emulated CUDA has allocated: device memory and pinned host memory. All other
// memory is pageable.

// Allocates memory filled with poison, since CUDA does not promise zeros. Null if `size_bytes` is
// more than a device has.
[[nodiscard]] void* allocate(std::size_t size_bytes);
// False if `data` is not an allocation.
[[nodiscard]] bool release(void* data);

enum class Range { kInside, kPageable, kBeyond };

// Tells whether [data, data + size_bytes) lies inside an allocation, outside all of them, or across
// the end of one.
[[nodiscard]] Range classify(const void* data, std::size_t size_bytes);

}  // namespace ddp::emulation
