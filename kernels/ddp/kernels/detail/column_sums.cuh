// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>

#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu::launch {

inline constexpr unsigned kColumnThreads = 1024;

// Calls f(kColumns, blocks) for a kernel that calls store_column_sums<kColumns>() with elements of
// type T. Blocks of a few columns read only 32 bytes of a row, as much as memory transfers at
// least; but a matrix may have too few columns for larger ones to use all multiprocessors.
template <class T, class F>
void with_columns(std::size_t columns, const F& f) {
  constexpr unsigned kFew = 32 / sizeof(T), kEnoughBlocks = 128;
  if (columns < std::size_t{kEnoughBlocks} * kWarp) {
    f(std::integral_constant<unsigned, kFew>{}, blocks_for(columns, kFew));
  } else {
    f(std::integral_constant<unsigned, kWarp>{}, blocks_for(columns, kWarp));
  }
}

// sums[c] = the sum of term(r, c), a Compute<T>, over all rows r. A block sums kColumns columns at
// a time, and each of its threads every kRows-th row of one of them, with several rows on the way.
// The order is fixed, so equal inputs give equal bits.
template <unsigned kColumns, class T, class Term>
__device__ void store_column_sums(const Term& term, T* sums, MatrixShape shape, WriteMode mode) {
  constexpr unsigned kWarps = kColumnThreads / kWarp;
  constexpr unsigned kRows = kColumnThreads / kColumns;
  constexpr unsigned kLoads = 8;  // on the way at a time
  static_assert(kWarp % kColumns == 0);
  __shared__ Compute<T> partial[kWarps][kColumns];
  for (std::size_t first = static_cast<std::size_t>(blockIdx.x) * kColumns; first < shape.columns;
       first += static_cast<std::size_t>(gridDim.x) * kColumns) {
    const std::size_t column = first + threadIdx.x % kColumns;
    Compute<T> sum = 0;
    if (column < shape.columns) {
      std::size_t row = threadIdx.x / kColumns;
      for (; row + (kLoads - 1) * kRows < shape.rows; row += kLoads * kRows) {
        Compute<T> loaded[kLoads];
#pragma unroll
        for (unsigned k = 0; k < kLoads; ++k) loaded[k] = term(row + k * kRows, column);
#pragma unroll
        for (unsigned k = 0; k < kLoads; ++k) sum += loaded[k];
      }
      for (; row < shape.rows; row += kRows) sum += term(row, column);
    }
    for (unsigned offset = kColumns; offset < kWarp; offset *= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, offset);
    }
    if (lane() < kColumns) partial[threadIdx.x / kWarp][lane()] = sum;
    __syncthreads();
    if (threadIdx.x < kColumns && column < shape.columns) {
      for (unsigned w = 1; w < kWarps; ++w) sum += partial[w][threadIdx.x];
      store<1>(sums, column, {sum}, mode);
    }
    __syncthreads();
  }
}

}  // namespace ddp::cu::launch
