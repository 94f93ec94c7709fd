// SPDX-License-Identifier: MIT
//
// In the gradient, a block owns some indices: it looks for them in all positions, and adds their
// gradients in order. Without atomics, equal inputs give equal bits. In a small table, whose rows
// have many positions each, a block owns one row. In a large one, most of whose rows have none, it
// owns the indices that occur in its own positions first of all.
#include <cmath>
#include <cstdint>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/embedding_checks.h"
#include "ddp/kernels/detail/launch.cuh"
#include "ddp/kernels/embedding.h"

namespace ddp::cu {
namespace {

template <int kWidth, class T, class Index>
__global__ void embedding_kernel(const T* table, const std::int64_t* indices, T* y, Index packs,
                                 detail::Divisor<Index> packs_per_row, std::size_t rows) {
  launch::for_each_index(packs, [&](Index i) {
    const Index position = i / packs_per_row;
    const std::int64_t index = indices[position];
    elementwise::Pack<T, kWidth> pack;
    if (index >= 0 && static_cast<std::size_t>(index) < rows) {
      const std::size_t first = static_cast<std::size_t>(index) * packs_per_row;
      pack = elementwise::pack_at<kWidth>(table, (first + i - position * packs_per_row) * kWidth);
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) pack.lane[k] = static_cast<T>(NAN);
    }
    elementwise::pack_at<kWidth>(y, static_cast<std::size_t>(i) * kWidth) = pack;
  });
}

constexpr std::size_t kSmallTable = 4096;  // rows
constexpr unsigned kOwnPositions = 32;
constexpr unsigned kTurns = 4;  // positions that a thread looks at before the block adds gradients
constexpr unsigned kPositions = kTurns * launch::kThreads;
constexpr unsigned kWords = kPositions / launch::kWarp;
constexpr unsigned kWarps = launch::kThreads / launch::kWarp;

// What the threads of a block share.
struct Search {
  static constexpr unsigned kRemainders = 1024;
  static constexpr std::int64_t kNone = -1;

  std::int64_t own[kOwnPositions];    // the block's indices, or kNone
  bool is_taken[kOwnPositions];       // by an earlier position
  unsigned char may_be[kRemainders];  // 1 if an own index has this remainder
  unsigned found[kWords];             // a bit for each position
  unsigned short positions[kPositions];
  unsigned char slots[kPositions];

  // The place of an index in `own`, or kOwnPositions.
  __device__ unsigned slot_of(std::int64_t index) const {
    if (index < 0 || may_be[static_cast<std::size_t>(index) % kRemainders] == 0) {
      return kOwnPositions;
    }
    unsigned slot = 0;
    while (slot < kOwnPositions && own[slot] != index) ++slot;
    return slot;
  }
};

// With the whole block, like the following functions: collects the valid indices of positions
// [first, first + kOwnPositions) that no earlier position has. False if there are none.
__device__ bool find_own(Search& search, const std::int64_t* indices, std::size_t positions,
                         std::size_t first, std::size_t rows) {
  const unsigned thread = threadIdx.x;
  for (unsigned i = thread; i < Search::kRemainders; i += launch::kThreads) search.may_be[i] = 0;
  __syncthreads();
  if (thread < kOwnPositions) {
    const std::int64_t index = first + thread < positions ? indices[first + thread] : Search::kNone;
    const bool is_valid = index >= 0 && static_cast<std::size_t>(index) < rows;
    search.own[thread] = is_valid ? index : Search::kNone;
    search.is_taken[thread] = !is_valid;
    if (is_valid) search.may_be[static_cast<std::size_t>(index) % Search::kRemainders] = 1;
  }
  __syncthreads();
  for (std::size_t p = thread; p < first; p += launch::kThreads) {
    const unsigned slot = search.slot_of(indices[p]);
    if (slot < kOwnPositions) search.is_taken[slot] = true;
  }
  __syncthreads();
  // slot_of() finds the first of equal indices, so the others count as taken.
  const bool is_own = thread < kOwnPositions && !search.is_taken[thread] &&
                      search.slot_of(search.own[thread]) == thread;
  __syncthreads();
  if (thread < kOwnPositions && !is_own) search.own[thread] = Search::kNone;
  __syncthreads();
  bool has_own = false;
  for (unsigned slot = 0; slot < kOwnPositions; ++slot) {
    has_own = has_own || search.own[slot] != Search::kNone;
  }
  return has_own;
}

// Makes `row` the only index of the block.
__device__ void own_row(Search& search, std::size_t row) {
  for (unsigned i = threadIdx.x; i < Search::kRemainders; i += launch::kThreads) {
    search.may_be[i] = i == row % Search::kRemainders ? 1 : 0;
  }
  if (threadIdx.x < kOwnPositions) {
    search.own[threadIdx.x] = threadIdx.x == 0 ? static_cast<std::int64_t>(row) : Search::kNone;
  }
  __syncthreads();
}

// Lists the positions from `first` on, kPositions at most, that have own indices; returns how many.
__device__ unsigned list_found(Search& search, const std::int64_t* indices, std::size_t positions,
                               std::size_t first) {
  unsigned slots[kTurns];
#pragma unroll
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    const std::size_t p = first + turn * launch::kThreads + threadIdx.x;
    slots[turn] = p < positions ? search.slot_of(indices[p]) : kOwnPositions;
    const unsigned votes = __ballot_sync(0xffffffffU, slots[turn] < kOwnPositions);
    if (launch::lane() == 0) {
      search.found[(turn * launch::kThreads + threadIdx.x) / launch::kWarp] = votes;
    }
  }
  __syncthreads();
  unsigned count = 0;
  for (unsigned w = 0; w < kWords; ++w) {
    const unsigned turn = w / kWarps;
    const bool is_mine = w % kWarps == threadIdx.x / launch::kWarp;
    if (is_mine && slots[turn] < kOwnPositions) {
      const unsigned before = search.found[w] & ((1U << launch::lane()) - 1);
      const unsigned place = count + static_cast<unsigned>(__popc(before));
      search.positions[place] = static_cast<unsigned short>(turn * launch::kThreads + threadIdx.x);
      search.slots[place] = static_cast<unsigned char>(slots[turn]);
    }
    count += static_cast<unsigned>(__popc(search.found[w]));
  }
  __syncthreads();
  return count;
}

// Adds the elements from `column` on of the listed positions, of which `gradients` holds the first
// one's row, to the table.
template <int kWidth, class T>
__device__ void add_column(const Search& search, unsigned count, const T* gradients, T* grad_table,
                           std::size_t columns, std::size_t column) {
  using Pack = elementwise::Pack<T, kWidth>;
  constexpr unsigned kLoads = 4;  // on the way at a time
  unsigned slot = kOwnPositions;
  Pack sum;
  Pack* target = nullptr;
  for (unsigned begin = 0; begin < count; begin += kLoads) {
    Pack loaded[kLoads];
#pragma unroll
    for (unsigned k = 0; k < kLoads; ++k) {
      if (begin + k >= count) break;
      const std::size_t at = search.positions[begin + k] * columns + column;
      loaded[k] = elementwise::pack_at<kWidth>(gradients, at);
    }
#pragma unroll
    for (unsigned k = 0; k < kLoads; ++k) {
      if (begin + k >= count) break;
      if (search.slots[begin + k] != slot) {
        if (target != nullptr) *target = sum;
        slot = search.slots[begin + k];
        const std::size_t row = static_cast<std::size_t>(search.own[slot]);
        target = &elementwise::pack_at<kWidth>(grad_table, row * columns + column);
        sum = *target;
      }
#pragma unroll
      for (int lane = 0; lane < kWidth; ++lane) sum.lane[lane] += loaded[k].lane[lane];
    }
  }
  if (target != nullptr) *target = sum;
}

// Adds the gradients of the block's indices in the positions from `first` on.
template <int kWidth, class T>
__device__ void add_own(Search& search, const T* grad_y, const std::int64_t* indices,
                        std::size_t positions, std::size_t first, T* grad_table,
                        std::size_t columns) {
  for (; first < positions; first += kPositions) {
    const unsigned count = list_found(search, indices, positions, first);
    for (std::size_t c = threadIdx.x * kWidth; count > 0 && c < columns;
         c += launch::kThreads * kWidth) {
      add_column<kWidth>(search, count, grad_y + first * columns, grad_table, columns, c);
    }
    __syncthreads();  // the next turn overwrites the list
  }
}

template <int kWidth, class T>
__global__ void small_backward_kernel(const T* grad_y, const std::int64_t* indices,
                                      std::size_t positions, T* grad_table, MatrixShape shape) {
  __shared__ Search search;
  for (std::size_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    own_row(search, row);
    add_own<kWidth>(search, grad_y, indices, positions, 0, grad_table, shape.columns);
  }
}

template <int kWidth, class T>
__global__ void large_backward_kernel(const T* grad_y, const std::int64_t* indices,
                                      std::size_t positions, T* grad_table, MatrixShape shape) {
  __shared__ Search search;
  for (std::size_t block = blockIdx.x; block * kOwnPositions < positions; block += gridDim.x) {
    const std::size_t first = block * kOwnPositions;
    if (find_own(search, indices, positions, first, shape.rows)) {
      add_own<kWidth>(search, grad_y, indices, positions, first, grad_table, shape.columns);
    }
    __syncthreads();  // the next search overwrites the last one's indices
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
    const auto* rows = static_cast<const T*>(table.data);
    auto* target = static_cast<T*>(y.data);
    const bool is_aligned = launch::are_aligned(rows, target);
    launch::with_packs<T>(y.count, shape_of_table.columns, is_aligned,
                          [&](auto width, auto packs, auto packs_per_row) {
                            launch::run(embedding_kernel<width, T, decltype(packs)>,
                                        launch::blocks_for(packs), stream, rows,
                                        static_cast<const std::int64_t*>(indices.data), target,
                                        packs, packs_per_row, shape_of_table.rows);
                          });
  });
}

void embedding_backward(const Buffer& grad_y, const Buffer& indices,
                        const GradientTarget& grad_table, MatrixShape shape_of_table,
                        Stream stream) {
  const Buffer& target = grad_table.buffer;
  detail::check_embedding("embedding_backward", target, indices, grad_y, shape_of_table);
  if (grad_table.mode == WriteMode::kOverwrite) cu::fill(target, 0, stream);
  if (target.count == 0 || indices.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("embedding_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* gradients = static_cast<const T*>(grad_y.data);
    auto* rows = static_cast<T*>(target.data);
    const bool is_wide =
        launch::are_aligned(gradients, rows) && shape_of_table.columns % launch::kWide<T> == 0;
    launch::with_width<T>(is_wide, [&](auto width) {
      const bool is_small = shape_of_table.rows <= kSmallTable;
      launch::run(is_small ? small_backward_kernel<width, T> : large_backward_kernel<width, T>,
                  is_small ? launch::blocks_for(shape_of_table.rows, 1)
                           : launch::blocks_for(indices.count, kOwnPositions),
                  stream, gradients, static_cast<const std::int64_t*>(indices.data), indices.count,
                  rows, shape_of_table);
    });
  });
}

}  // namespace ddp::cu
