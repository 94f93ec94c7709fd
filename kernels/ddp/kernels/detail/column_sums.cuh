// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu::launch {

inline constexpr unsigned kColumnThreads = 1024;

// Launches a kernel that calls store_column_sums().
template <class... Parameters, class... Arguments>
void run_columns(void (*kernel)(Parameters...), std::size_t columns, Stream stream,
                 Arguments&&... arguments) {
  launch_kernel(kernel, blocks_for(columns, kWarp), kColumnThreads, stream,
                std::forward<Arguments>(arguments)...);
}

// sums[c] = the sum of term(r, c) over all rows r. A block sums 32 columns: warp w takes rows w,
// w + 32, ..., several at a time, since a matrix may have fewer columns than fill all
// multiprocessors; then warp 0 adds the partial sums. The order is fixed, so equal inputs give
// equal bits.
template <class T, class Term>
__device__ void store_column_sums(const Term& term, T* sums, MatrixShape shape, WriteMode mode) {
  constexpr unsigned kWarps = kColumnThreads / kWarp;
  constexpr unsigned kLoads = 8;  // on the way at a time
  __shared__ T partial[kWarps][kWarp];
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  for (std::size_t first = static_cast<std::size_t>(blockIdx.x) * kWarp; first < shape.columns;
       first += static_cast<std::size_t>(gridDim.x) * kWarp) {
    const std::size_t column = first + lane;
    T sum = 0;
    if (column < shape.columns) {
      std::size_t row = warp;
      for (; row + (kLoads - 1) * kWarps < shape.rows; row += kLoads * kWarps) {
        T loaded[kLoads];
#pragma unroll
        for (unsigned k = 0; k < kLoads; ++k) loaded[k] = term(row + k * kWarps, column);
#pragma unroll
        for (unsigned k = 0; k < kLoads; ++k) sum += loaded[k];
      }
      for (; row < shape.rows; row += kWarps) sum += term(row, column);
    }
    partial[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < shape.columns) {
      for (unsigned w = 1; w < kWarps; ++w) sum += partial[w][lane];
      store(&sums[column], sum, mode);
    }
    __syncthreads();
  }
}

}  // namespace ddp::cu::launch
