// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu::launch {

// sums[c] = the sum of term(r, c) over all rows r, for a grid of blocks_for(shape.columns, kWarp).
// A block sums 32 columns: warp w takes rows w, w + 8, ..., then warp 0 adds the 8 partial sums.
// The order is fixed, so equal inputs give equal bits.
template <class T, class Term>
__device__ void store_column_sums(const Term& term, T* sums, MatrixShape shape, WriteMode mode) {
  __shared__ T partial[kRowsPerBlock][kWarp];
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  for (std::size_t first = static_cast<std::size_t>(blockIdx.x) * kWarp; first < shape.columns;
       first += static_cast<std::size_t>(gridDim.x) * kWarp) {
    const std::size_t column = first + lane;
    T sum = 0;
    if (column < shape.columns) {
      for (std::size_t row = warp; row < shape.rows; row += kRowsPerBlock) sum += term(row, column);
    }
    partial[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < shape.columns) {
      for (unsigned w = 1; w < kRowsPerBlock; ++w) sum += partial[w][lane];
      store(&sums[column], sum, mode);
    }
    __syncthreads();
  }
}

}  // namespace ddp::cu::launch
