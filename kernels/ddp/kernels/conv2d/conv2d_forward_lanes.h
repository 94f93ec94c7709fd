// SPDX-License-Identifier: MIT
//
// Compiled once for each instruction set; see conv2d/conv2d_lanes.h.
#pragma once

#include "ddp/kernels/conv2d/conv2d_lanes.h"

namespace ddp::detail {
namespace {

template <class L>
class Conv2dForward : private Conv2dPass<L> {
  using Pass = Conv2dPass<L>;
  using typename Pass::T;
  using typename Pass::V;

 public:
  static void run(const Conv2dSizes& sizes, const T* x, const T* weight, const T* bias, T* y,
                  const Conv2dScratch<T>& scratch) {
    const Conv2dForward pass(sizes, scratch);
    pass.write_tap_offsets();
    pass.pack_weights(weight);
    pass.clear_padding();
    const std::size_t y_size = pass.shape.out_channels * pass.out_plane;
    for (std::size_t n = 0; n < pass.shape.batch; n += L::kCount) {
      pass.load_input(x, n);
      pass.compute_group(bias);
      from_lanes<L>(pass.out, y_size, pass.group(y, n, pass.y_sample), WriteMode::kOverwrite);
    }
  }

 private:
  using Pass::Pass;

  // A block's weights in the order in which compute_pixels reads them: tap by tap.
  void pack_weights(const T* weight) const {
    for_each_block(this->shape.out_channels, [&](std::size_t first, auto block) {
      T* packed = this->weights + first * this->taps;
      for (std::size_t t = 0; t < this->taps; ++t) {
        for (std::size_t o = first; o < first + block.value; ++o) {
          *packed++ = weight[o * this->taps + t];
        }
      }
    });
  }

  void compute_group(const T* bias) const {
    for_each_block(this->shape.out_channels, [&](std::size_t first, auto block) {
      for (std::size_t r = 0; r < this->output.height; ++r) {
        const V* x = this->in + r * this->shape.stride.height * this->padded.width;
        V* y = this->out + first * this->out_plane + r * this->output.width;
        for_each_pair(this->output.width, [&](std::size_t c, auto pixels) {
          compute_pixels<block.value, pixels.value>(x + c * this->shape.stride.width,
                                                    this->weights + first * this->taps,
                                                    bias + first, y + c);
        });
      }
    });
  }

  // Neighbours in a row of y, for a block of channels.
  template <std::size_t kBlock, std::size_t kPixels>
  void compute_pixels(const V* x, const T* packed, const T* bias, V* y) const {
    V sums[kBlock][kPixels];
#pragma GCC unroll 8
    for (std::size_t o = 0; o < kBlock; ++o) {
#pragma GCC unroll 2
      for (std::size_t p = 0; p < kPixels; ++p) sums[o][p] = V{} + bias[o];
    }
    const std::size_t step = this->shape.stride.width;
    for (std::size_t t = 0; t < this->taps; ++t, packed += kBlock) {
      const V* at = x + this->tap_offsets[t];
#pragma GCC unroll 8
      for (std::size_t o = 0; o < kBlock; ++o) {
#pragma GCC unroll 2
        for (std::size_t p = 0; p < kPixels; ++p) sums[o][p] += packed[o] * at[p * step];
      }
    }
#pragma GCC unroll 8
    for (std::size_t o = 0; o < kBlock; ++o) {
#pragma GCC unroll 2
      for (std::size_t p = 0; p < kPixels; ++p) y[o * this->out_plane + p] = sums[o][p];
    }
  }
};

}  // namespace
}  // namespace ddp::detail
