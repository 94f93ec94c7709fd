// SPDX-License-Identifier: MIT
//
// Shared by the .cu files of ddp/kernels: how they launch kernels, index threads and sum over warps
// and blocks.
#pragma once

#include <algorithm>
#include <utility>

#include "ddp/cuda/launch.cuh"
#include "ddp/kernels/detail/divisor.h"
#include "ddp/kernels/shapes.h"

namespace ddp::cu::launch {

inline constexpr unsigned kThreads = 256;
inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kRowsPerBlock = kThreads / kWarp;  // if one warp handles one row

// Returns how many blocks `items` need if each handles `per_block`, but at most as many as a grid
// may have. Kernels therefore loop over the grid (a grid-stride loop).
inline unsigned blocks_for(std::size_t items, unsigned per_block = kThreads) {
  return static_cast<unsigned>(std::min(kMaxGridBlocks, (items + per_block - 1) / per_block));
}

// Launches `blocks` blocks of kThreads threads.
template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), unsigned blocks, Stream stream, Arguments&&... arguments) {
  launch_kernel(kernel, blocks, kThreads, stream, std::forward<Arguments>(arguments)...);
}

__device__ inline std::size_t global_thread() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::size_t grid_threads() {
  return static_cast<std::size_t>(gridDim.x) * blockDim.x;
}

// Calls f(i) for this thread's share of [0, count).
template <class Index, class F>
__device__ void for_each_index(Index count, const F& f) {
  const auto step = static_cast<Index>(grid_threads());
  for (auto i = static_cast<Index>(global_thread()); i < count; i += step) f(i);
}

// with_index() for kernels that call for_each_index(), which counts beyond the end.
template <class F>
void with_grid_index(std::size_t largest, F&& f) {
  detail::with_index(largest + kMaxGridBlocks * kThreads, std::forward<F>(f));
}

// For kernels in which one warp handles one row: its first row, and the distance to its next one.
__device__ inline unsigned lane() { return threadIdx.x % kWarp; }
__device__ inline std::size_t first_row() { return global_thread() / kWarp; }
__device__ inline std::size_t row_step() { return grid_threads() / kWarp; }

template <class T>
__device__ void store(T* target, T value, WriteMode mode) {
  *target = mode == WriteMode::kAccumulate ? *target + value : value;
}

// Both return the same result in every lane.
template <class T>
__device__ T warp_sum(T value) {
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}
template <class T>
__device__ T warp_max(T value) {
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2) {
    value = max(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  return value;
}

// Sums over a block of whole warps, in a fixed order. All threads of the block must call it; thread
// 0 gets the sum, the others get 0.
template <class T>
__device__ T block_sum(T value) {
  constexpr unsigned kMaxWarps = 32;
  __shared__ T partial[kMaxWarps];
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  T sum = 0;
  for (unsigned w = 0; threadIdx.x == 0 && w < blockDim.x / kWarp; ++w) sum += partial[w];
  __syncthreads();  // the next call overwrites `partial`
  return sum;
}

}  // namespace ddp::cu::launch
