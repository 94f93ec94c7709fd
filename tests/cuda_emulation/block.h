// SPDX-License-Identifier: MIT
//
// The threads of a block as fibers of one thread of the host: each runs until it waits for others,
// so what they do is deterministic. Warps take turns in ascending and in descending order, from
// barrier to barrier, so that a missing barrier shows whichever warp should have waited.
#pragma once

#include <cstdint>
#include <functional>

namespace ddp::emulation {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxThreads = 1024;

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// Of the emulated thread that runs.
extern constinit thread_local Index thread_index, block_index, block_size, grid_size;

// Runs one block after the other. Ends the process, and says why, if threads of a block wait in
// different places for ever: on a GPU that hangs or is undefined.
void run_grid(unsigned blocks, unsigned threads, const std::function<void()>& thread);

// For emulated threads.
void sync_threads();
[[nodiscard]] inline unsigned lane() { return thread_index.x % kWarp; }
// Gives `value` to the other lanes of the warp, and returns that of lane `from` once all have come
// here. `lanes`: the mask of CUDA's functions; only a full one is known.
[[nodiscard]] std::uint64_t exchange(unsigned lanes, unsigned from, std::uint64_t value);

}  // namespace ddp::emulation
