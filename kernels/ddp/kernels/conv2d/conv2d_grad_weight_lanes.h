// SPDX-License-Identifier: MIT
//
// Compiled once for each instruction set; see conv2d/conv2d_lanes.h.
#pragma once

#include "ddp/kernels/conv2d/conv2d_lanes.h"

namespace ddp::detail {
namespace {

// The lanes are summed separately over the whole batch, and added together at its end.
template <class L>
class Conv2dGradWeight : private Conv2dPass<L> {
  using Pass = Conv2dPass<L>;
  using typename Pass::T;
  using typename Pass::V;

 public:
  static void run(const Conv2dSizes& sizes, const T* x, const T* grad_y, T* grad_weight,
                  WriteMode mode, const Conv2dScratch<T>& scratch) {
    const Conv2dGradWeight pass(sizes, scratch);
    V* const sums = reinterpret_cast<V*>(scratch.weights);
    const std::size_t y_size = pass.shape.out_channels * pass.out_plane;
    const std::size_t weight_count = pass.shape.out_channels * pass.taps;
    pass.write_tap_offsets();
    pass.clear_padding();
    clear(sums, weight_count);
    for (std::size_t n = 0; n < pass.shape.batch; n += L::kCount) {
      pass.load_input(x, n);
      to_lanes<L>(pass.group(grad_y, n, pass.y_sample), y_size, pass.out);
      pass.add_group(sums);
    }
    for (std::size_t i = 0; i < weight_count; ++i) {
      const T sum = sum_of_lanes(sums[i]);
      grad_weight[i] = mode == WriteMode::kAccumulate ? grad_weight[i] + sum : sum;
    }
  }

 private:
  // A share of the first-level cache: half of a small one.
  static constexpr std::size_t kBudgetBytes = 16 * 1024;

  // Rows of grad_y, and their number.
  struct Rows {
    std::size_t first;
    std::size_t count;
  };

  using Pass::Pass;

  // All taps process a few rows, which stay in the cache, before the next rows.
  void add_group(V* sums) const {
    const std::size_t row_bytes = kMaxBlock * this->output.width * sizeof(V);
    const std::size_t rows = row_bytes > kBudgetBytes ? 1 : kBudgetBytes / row_bytes;
    for_each_block(this->shape.out_channels, [&](std::size_t channel, auto block) {
      for (std::size_t r = 0; r < this->output.height; r += rows) {
        const std::size_t rest = this->output.height - r;
        for_each_pair(this->taps, [&](std::size_t tap, auto pair) {
          add_rows<block.value, pair.value>({r, rest < rows ? rest : rows}, channel, tap,
                                            sums + channel * this->taps + tap);
        });
      }
    });
  }

  // The contribution of some rows to the weights of a few taps and a block of channels.
  template <std::size_t kBlock, std::size_t kTaps>
  void add_rows(Rows rows, std::size_t channel, std::size_t tap, V* weight_sums) const {
    V sums[kBlock][kTaps];
#pragma GCC unroll 8
    for (std::size_t o = 0; o < kBlock; ++o) {
#pragma GCC unroll 2
      for (std::size_t t = 0; t < kTaps; ++t) sums[o][t] = weight_sums[o * this->taps + t];
    }
    const std::size_t width = this->output.width;
    const std::size_t step = this->shape.stride.width;
    for (std::size_t r = rows.first; r < rows.first + rows.count; ++r) {
      const V* grad = this->out + channel * this->out_plane + r * width;
      const V* x[kTaps];
#pragma GCC unroll 2
      for (std::size_t t = 0; t < kTaps; ++t) {
        x[t] = this->in + r * this->shape.stride.height * this->padded.width +
               this->tap_offsets[tap + t];
      }
      for (std::size_t c = 0; c < width; ++c) {
#pragma GCC unroll 8
        for (std::size_t o = 0; o < kBlock; ++o) {
          const V factor = loaded(grad[o * this->out_plane + c]);
#pragma GCC unroll 2
          for (std::size_t t = 0; t < kTaps; ++t) sums[o][t] += factor * x[t][c * step];
        }
      }
    }
#pragma GCC unroll 8
    for (std::size_t o = 0; o < kBlock; ++o) {
#pragma GCC unroll 2
      for (std::size_t t = 0; t < kTaps; ++t) weight_sums[o * this->taps + t] = sums[o][t];
    }
  }

  static T sum_of_lanes(const V& vector) {
    T sum = 0;
    for (std::size_t l = 0; l < L::kCount; ++l) sum += vector[l];
    return sum;
  }
};

}  // namespace
}  // namespace ddp::detail
