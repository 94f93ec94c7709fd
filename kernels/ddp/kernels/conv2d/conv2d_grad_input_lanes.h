// SPDX-License-Identifier: MIT
//
// Compiled once for each instruction set; see conv2d/conv2d_lanes.h.
#pragma once

#include "ddp/kernels/conv2d/conv2d_lanes.h"

namespace ddp::detail {
namespace {

// In coordinates of the padded input, tap (h, w) connects pixel (r, c) with pixel ((r - h) /
// stride, (c - w) / stride) of y, if that is whole and inside. Two pixels one stride apart have the
// same taps except at the borders; there grad_y gets a column of zeros for the pixel that is
// outside.
template <class L>
class Conv2dGradInput : private Conv2dPass<L> {
  using Pass = Conv2dPass<L>;
  using typename Pass::T;
  using typename Pass::V;

 public:
  static void run(const Conv2dSizes& sizes, const T* weight, const T* grad_y, T* grad_x,
                  WriteMode mode, const Conv2dScratch<T>& scratch) {
    const Conv2dGradInput pass(sizes, scratch);
    pass.pack_weights(weight);
    clear(pass.out, pass.shape.out_channels * pass.grad_plane());
    const std::size_t x_size = pass.shape.in_channels * pass.in_plane;
    for (std::size_t n = 0; n < pass.shape.batch; n += L::kCount) {
      pass.load_gradient(grad_y, n);
      pass.compute_group();
      from_lanes<L>(pass.in, x_size, pass.group(grad_x, n, pass.x_sample), mode);
    }
  }

 private:
  using Pass::Pass;

  std::size_t grad_width() const { return this->output.width + 2; }
  std::size_t grad_plane() const { return this->output.height * grad_width(); }

  // A block's weights in the order in which compute_pixels reads them: the kernel's rows and
  // columns, then output channels.
  void pack_weights(const T* weight) const {
    for_each_block(this->shape.in_channels, [&](std::size_t first, auto block) {
      T* packed = this->weights + first * this->kernel_plane * this->shape.out_channels;
      for (std::size_t k = 0; k < this->kernel_plane; ++k) {
        for (std::size_t o = 0; o < this->shape.out_channels; ++o) {
          for (std::size_t i = first; i < first + block.value; ++i) {
            *packed++ = weight[o * this->taps + i * this->kernel_plane + k];
          }
        }
      }
    });
  }

  void load_gradient(const T* grad_y, std::size_t n) const {
    const std::size_t rows = this->shape.out_channels * this->output.height;
    const Samples<const T> samples = this->group(grad_y, n, this->y_sample);
    for (std::size_t r = 0; r < rows; ++r) {
      to_lanes<L>(samples.moved(r * this->output.width), this->output.width,
                  this->out + r * grad_width() + 1);
    }
  }

  void compute_group() const {
    const std::size_t width = this->shape.input.width;
    const std::size_t step = this->shape.stride.width;
    for_each_block(this->shape.in_channels, [&](std::size_t first, auto block) {
      for (std::size_t r = 0; r < this->shape.input.height; ++r) {
        for (std::size_t start = 0; start < step && start < width; ++start) {
          for_each_pair((width - start + step - 1) / step, [&](std::size_t i, auto pixels) {
            compute_pixels<block.value, pixels.value>(first, r, start + i * step);
          });
        }
      }
    });
  }

  // The pixel at (row, column) of the input, or two with a stride between them, for a block of
  // input channels.
  template <std::size_t kBlock, std::size_t kPixels>
  void compute_pixels(std::size_t first, std::size_t row, std::size_t column) const {
    const Size2d kernel = this->shape.kernel, stride = this->shape.stride;
    const T* packed = this->weights + first * this->kernel_plane * this->shape.out_channels;
    const std::size_t padded_row = row + this->shape.padding.height;
    const std::size_t padded_column = column + this->shape.padding.width;
    V sums[kBlock][kPixels] = {};
    for (std::size_t h = padded_row % stride.height; h < kernel.height && h <= padded_row;
         h += stride.height) {
      const std::size_t grad_row = (padded_row - h) / stride.height;
      if (grad_row >= this->output.height) continue;
      // One more than the first pixel's column in y: 0 is the column of zeros.
      std::size_t next = padded_column / stride.width + 1;
      for (std::size_t w = padded_column % stride.width; w < kernel.width; w += stride.width) {
        if (next + kPixels <= grad_width()) {
          add_tap<kBlock, kPixels>(
              packed + (h * kernel.width + w) * this->shape.out_channels * kBlock,
              this->out + grad_row * grad_width() + next, sums);
        }
        if (next == 0) break;
        --next;
      }
    }
    V* target = this->in + first * this->in_plane + row * this->shape.input.width + column;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kBlock; ++i) {
#pragma GCC unroll 2
      for (std::size_t p = 0; p < kPixels; ++p) {
        target[i * this->in_plane + p * stride.width] = sums[i][p];
      }
    }
  }

  template <std::size_t kBlock, std::size_t kPixels>
  __attribute__((always_inline)) void add_tap(const T* packed, const V* grad,
                                              V (&sums)[kBlock][kPixels]) const {
    for (std::size_t o = 0; o < this->shape.out_channels; ++o) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kBlock; ++i) {
#pragma GCC unroll 2
        for (std::size_t p = 0; p < kPixels; ++p) sums[i][p] += packed[i] * grad[p];
      }
      packed += kBlock;
      grad += grad_plane();
    }
  }
};

}  // namespace
}  // namespace ddp::detail
