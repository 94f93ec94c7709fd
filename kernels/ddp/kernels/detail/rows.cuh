// SPDX-License-Identifier: MIT
//
// For kernels that visit the rows of a matrix several times: a team of threads, a warp or a block,
// handles one row at a time, and reads it once if its registers can hold it.
#pragma once

#include "ddp/buffer_ops/elementwise.cuh"
#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu::launch {

// A team's lanes get the same results of sum() and max(), which all of them must call.
struct WarpTeam {
  static constexpr unsigned kLanes = kWarp;

  static __device__ unsigned lane() { return launch::lane(); }
  static __device__ std::size_t first_row() { return launch::first_row(); }
  static __device__ std::size_t row_step() { return launch::row_step(); }
  template <class T>
  static __device__ T sum(T value) {
    return warp_sum(value);
  }
  template <class T>
  static __device__ T max(T value) {
    return warp_max(value);
  }
};

struct BlockTeam {
  static constexpr unsigned kLanes = kThreads;

  static __device__ unsigned lane() { return threadIdx.x; }
  static __device__ std::size_t first_row() { return blockIdx.x; }
  static __device__ std::size_t row_step() { return gridDim.x; }
  template <class T>
  static __device__ T sum(T value) {
    return combine(warp_sum(value), [](T a, T b) { return a + b; });
  }
  template <class T>
  static __device__ T max(T value) {
    return combine(warp_max(value), [](T a, T b) { return ::max(a, b); });
  }

 private:
  template <class T, class F>
  static __device__ T combine(T of_warp, const F& f) {
    __shared__ T of_warps[kThreads / kWarp];
    if (launch::lane() == 0) of_warps[threadIdx.x / kWarp] = of_warp;
    __syncthreads();
    T result = of_warps[0];
    for (unsigned w = 1; w < kThreads / kWarp; ++w) result = f(result, of_warps[w]);
    __syncthreads();  // the next call overwrites `of_warps`
    return result;
  }
};

// How the lanes of a team share a row: in packs of kWidth elements. They do it in a fixed order, so
// that equal inputs give equal bits.
template <class T, int kWidth, class TeamOfRow, bool kIsHeld>
class Rows {
 public:
  using Element = T;
  using Team = TeamOfRow;
  using Pack = elementwise::Pack<T, kWidth>;

  static constexpr int kHeldPacks = 128 / sizeof(Pack);  // of a lane
  // The longest row that a team can hold.
  static constexpr std::size_t kHeldColumns = std::size_t{Team::kLanes} * kHeldPacks * kWidth;

  // A row, or another operand with an element a column. Reads an element as often as asked for it.
  class InMemory {
   public:
    explicit __device__ InMemory(const T* elements) : elements_(elements) {}

    __device__ Pack pack(std::size_t column, int) const {
      return elementwise::pack_at<kWidth>(elements_, column);
    }

   private:
    const T* elements_;
  };

  // The first `columns` elements of a row, in registers.
  class Held {
   public:
    __device__ Held(const T* elements, std::size_t columns) {
      each_pack(columns, [&](std::size_t column, int p) {
        packs_[p] = elementwise::pack_at<kWidth>(elements, column);
      });
    }

    __device__ const Pack& pack(std::size_t, int p) const { return packs_[p]; }

   private:
    Pack packs_[kHeldPacks] = {};
  };

  // Calls f(r) for each row r of this team.
  template <class F>
  static __device__ void for_each(std::size_t rows, const F& f) {
    for (std::size_t r = Team::first_row(); r < rows; r += Team::row_step()) f(r);
  }

  static __device__ auto read(const T* elements, std::size_t columns) {
    if constexpr (kIsHeld) {
      return Held(elements, columns);
    } else {
      return InMemory(elements);
    }
  }

  // Calls f(c, element of each operand at c) for this lane's columns c. If `columns` ends within a
  // pack, c goes on to the pack's end.
  template <class F, class... Operands>
  static __device__ void visit(std::size_t columns, const F& f, const Operands&... operands) {
    each_pack(columns, [&](std::size_t column, int p) {
      visit_pack(column, f, operands.pack(column, p)...);
    });
  }

  // target[c] = f(c, element of each operand at c), or += in the other mode.
  template <class F, class... Operands>
  static __device__ void store(T* target, std::size_t columns, WriteMode mode, const F& f,
                               const Operands&... operands) {
    each_pack(columns, [&](std::size_t column, int p) {
      Pack results;
      const auto keep = [&](std::size_t c, auto... elements) {
        results.lane[c - column] = f(c, elements...);
      };
      visit_pack(column, keep, operands.pack(column, p)...);
      Pack& stored = elementwise::pack_at<kWidth>(target, column);
      if (mode == WriteMode::kAccumulate) {
        const Pack before = stored;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) results.lane[k] = before.lane[k] + results.lane[k];
      }
      stored = results;
    });
  }

 private:
  // Calls f(c, p) for this lane's packs, of which the p-th begins at column c.
  template <class F>
  static __device__ void each_pack(std::size_t columns, const F& f) {
    constexpr std::size_t kStep = std::size_t{Team::kLanes} * kWidth;
    const std::size_t first = std::size_t{Team::lane()} * kWidth;
    if constexpr (kIsHeld) {
#pragma unroll
      for (int p = 0; p < kHeldPacks; ++p) {
        if (first + p * kStep < columns) f(first + p * kStep, p);
      }
    } else {
      for (std::size_t column = first; column < columns; column += kStep) f(column, 0);
    }
  }

  template <class F, class... Packs>
  static __device__ void visit_pack(std::size_t column, const F& f, const Packs&... packs) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) f(column + k, packs.lane[k]...);
  }
};

// Calls f(rows, blocks) with the Rows for a matrix of T, and the number of blocks that the launch
// of a kernel over it needs. `is_aligned`: all its operands are, which have rows of as many
// columns.
template <class T, class F>
void with_rows(MatrixShape shape, bool is_aligned, const F& f) {
  with_width<T>(is_aligned && shape.columns % kWide<T> == 0, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    using OfWarps = Rows<T, kWidth, WarpTeam, true>;
    using OfBlocks = Rows<T, kWidth, BlockTeam, true>;
    if (shape.columns <= OfWarps::kHeldColumns) {
      f(OfWarps{}, blocks_for(shape.rows, kRowsPerBlock));
    } else if (shape.columns <= OfBlocks::kHeldColumns) {
      f(OfBlocks{}, blocks_for(shape.rows, 1));
    } else {
      f(Rows<T, kWidth, BlockTeam, false>{}, blocks_for(shape.rows, 1));
    }
  });
}

}  // namespace ddp::cu::launch
