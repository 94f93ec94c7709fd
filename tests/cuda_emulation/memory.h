// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace ddp::emulation {

// The memory that the emulated CUDA has allocated: device memory and pinned host memory. All other
// memory is pageable.

// What a device has: 16 GiB, or as many bytes as DDP_EMULATED_MEMORY says. All devices together,
// and pinned memory, too, take it.
[[nodiscard]] std::size_t device_bytes();
[[nodiscard]] std::size_t used_bytes();

constexpr int kPinned = -1;
constexpr int kUnregistered = -2;

// Allocates memory of a device, or for kPinned pinned memory, filled with poison, since CUDA does
// not promise zeros. Null if less than `size_bytes` are left.
[[nodiscard]] void* allocate(std::size_t size_bytes, int device);
// False if `data` is not an allocation.
[[nodiscard]] bool release(void* data);

enum class Range { kInside, kPageable, kBeyond };

// The device whose memory this is, or kPinned or kUnregistered.
[[nodiscard]] int device_of(const void* data);

// Tells whether [data, data + size_bytes) lies inside an allocation, outside all of them, or across
// the end of one.
[[nodiscard]] Range classify(const void* data, std::size_t size_bytes);

}  // namespace ddp::emulation
