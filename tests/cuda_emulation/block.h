// SPDX-License-Identifier: MIT
//
// The threads of a block are fibers of one host thread. Each runs until it waits for others, so the
// execution is deterministic. From barrier to barrier, warps run alternately in ascending and
// descending order, so that a missing barrier shows whichever warp should have waited.
#pragma once

#include <cstdint>
#include <functional>

namespace ddp::emulation {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxThreads = 1024;

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// Indices and sizes of the emulated thread that is running.
extern constinit thread_local Index thread_index, block_index, block_size, grid_size;

// Runs one block after the other. If threads of a block wait forever in different places, which on
// a GPU hangs or is undefined, the process ends with a message.
void run_grid(unsigned blocks, unsigned threads, const std::function<void()>& thread);

// Called by emulated threads.
void sync_threads();
[[nodiscard]] inline unsigned lane() { return thread_index.x % kWarp; }
// Gives `value` to the other lanes of the warp, and returns the value of lane `from` when all lanes
// have called this. `lanes` is the mask of CUDA's functions; only a full mask is supported.
[[nodiscard]] std::uint64_t exchange(unsigned lanes, unsigned from, std::uint64_t value);

}  // namespace ddp::emulation
