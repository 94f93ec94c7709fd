// SPDX-License-Identifier: MIT
//
// In the gradient, one block handles one row of the table: it looks for the positions that have the
// row's index, and adds their gradients in order. Without atomics, equal inputs give equal bits.
// Most positions belong to other rows, so a warp marks those of the row as the bits of a word.
#include <cmath>
#include <cstdint>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/embedding_checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/embedding.h"

namespace ddp::cu {
namespace {

template <class T>
__global__ void embedding_kernel(const T* table, const std::int64_t* indices, T* y,
                                 std::size_t count, MatrixShape shape) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    const std::int64_t index = indices[i / shape.columns];
    const bool is_valid = index >= 0 && static_cast<std::size_t>(index) < shape.rows;
    y[i] = is_valid ? table[static_cast<std::size_t>(index) * shape.columns + i % shape.columns]
                    : static_cast<T>(NAN);
  }
}

// Whether any index is `row`, with the whole block.
__device__ bool is_used(const std::int64_t* indices, std::size_t positions, std::int64_t row) {
  __shared__ bool result;
  if (threadIdx.x == 0) result = false;
  __syncthreads();
  for (std::size_t p = threadIdx.x; p < positions; p += launch::kThreads) {
    if (indices[p] == row) result = true;
  }
  __syncthreads();
  return result;
}

// With the whole block.
template <class T>
__device__ void add_row(const T* row, T* target, std::size_t columns) {
  for (std::size_t c = threadIdx.x; c < columns; c += launch::kThreads) target[c] += row[c];
}

template <class T>
__global__ void embedding_backward_kernel(const T* grad_y, const std::int64_t* indices,
                                          std::size_t positions, T* grad_table, MatrixShape shape,
                                          WriteMode mode) {
  __shared__ unsigned own_of_warp[launch::kRowsPerBlock];
  for (std::size_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    T* target = grad_table + row * shape.columns;
    for (std::size_t c = threadIdx.x; mode == WriteMode::kOverwrite && c < shape.columns;
         c += launch::kThreads) {
      target[c] = T{0};
    }
    const auto own = static_cast<std::int64_t>(row);
    const bool is_needed = is_used(indices, positions, own);
    for (std::size_t first = 0; is_needed && first < positions; first += launch::kThreads) {
      const std::size_t position = first + threadIdx.x;
      const bool is_own = position < positions && indices[position] == own;
      const unsigned votes = __ballot_sync(0xffffffffU, is_own);
      if (launch::lane() == 0) own_of_warp[threadIdx.x / launch::kWarp] = votes;
      __syncthreads();
      for (unsigned w = 0; w < launch::kRowsPerBlock; ++w) {
        for (unsigned bits = own_of_warp[w]; bits != 0; bits &= bits - 1) {
          const std::size_t found = first + w * launch::kWarp + __ffs(static_cast<int>(bits)) - 1;
          add_row(grad_y + found * shape.columns, target, shape.columns);
        }
      }
      __syncthreads();  // the next turn overwrites `own_of_warp`
    }
    __syncthreads();  // as does the next row's search its result
  }
}

}  // namespace

void embedding_forward(const Buffer& table, const Buffer& indices, const Buffer& y,
                       MatrixShape shape_of_table, Stream stream) {
  detail::check_embedding("embedding_forward", table, indices, y, shape_of_table);
  if (y.count == 0) return;
  const DeviceGuard guard(y.device);
  detail::dispatch_float("embedding_forward", table.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(embedding_kernel<T>, launch::blocks_for(y.count), stream,
                static_cast<const T*>(table.data), static_cast<const std::int64_t*>(indices.data),
                static_cast<T*>(y.data), y.count, shape_of_table);
  });
}

void embedding_backward(const Buffer& grad_y, const Buffer& indices,
                        const GradientTarget& grad_table, MatrixShape shape_of_table,
                        Stream stream) {
  const Buffer& target = grad_table.buffer;
  detail::check_embedding("embedding_backward", target, indices, grad_y, shape_of_table);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("embedding_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(embedding_backward_kernel<T>, launch::blocks_for(shape_of_table.rows, 1), stream,
                static_cast<const T*>(grad_y.data), static_cast<const std::int64_t*>(indices.data),
                indices.count, static_cast<T*>(target.data), shape_of_table, grad_table.mode);
  });
}

}  // namespace ddp::cu
