// SPDX-License-Identifier: MIT
//
// What the three passes of a convolution share. They process the batch in groups of as many samples
// as a vector has lanes. A group's images are transposed into vectors (detail/lanes.h) in scratch
// memory that stays in the cache. Each innermost loop keeps a block of sums in registers, up to
// kMaxBlock channels by 2 pixels or taps; a tap is one (channel, row, column) of the kernel.
//
// Compiled once for each instruction set; detail/lanes.h says what that forbids.
#pragma once

#include "ddp/kernels/conv2d/conv2d_loops.h"
#include "ddp/kernels/detail/lanes.h"

namespace ddp::detail {
namespace {

// 6 x 2 sums with their operands just fit into the 16 vector registers of AVX2. AVX-512 has 32, but
// 12 sums already keep its arithmetic units busy.
constexpr std::size_t kMaxBlock = 6;

template <std::size_t kValue>
struct Constant {
  static constexpr std::size_t value = kValue;
};

// Calls f(Constant<n>{}) for an n from 1 to kMaxBlock that is only known at run time.
template <std::size_t kGuess = kMaxBlock, class F>
void with_constant(std::size_t n, const F& f) {
  if (n == kGuess) return f(Constant<kGuess>{});
  if constexpr (kGuess > 1) with_constant<kGuess - 1>(n, f);
}

// Cuts the channels into blocks of nearly equal size and calls f(first channel, Constant<size>).
template <class F>
void for_each_block(std::size_t channels, const F& f) {
  std::size_t blocks = (channels + kMaxBlock - 1) / kMaxBlock;
  for (std::size_t first = 0; blocks > 0; --blocks) {
    const std::size_t size = (channels - first + blocks - 1) / blocks;
    with_constant(size, [&](auto block) { f(first, block); });
    first += size;
  }
}

// Calls f(c, Constant<2>) for the pairs in 0 ... count - 1, and f(c, Constant<1>) for a remaining
// one.
template <class F>
void for_each_pair(std::size_t count, const F& f) {
  std::size_t c = 0;
  for (; c + 2 <= count; c += 2) f(c, Constant<2>{});
  if (c < count) f(c, Constant<1>{});
}

template <class V>
void clear(V* vectors, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) vectors[i] = V{};
}

// A convolution's geometry, and its scratch memory seen as vectors.
template <class L>
struct Conv2dPass {
  using T = typename L::Element;
  using V = typename L::Vector;

  Conv2dPass(const Conv2dSizes& sizes, const Conv2dScratch<T>& scratch)
      : shape(sizes.shape),
        output(sizes.output),
        x_sample(sizes.x_sample),
        y_sample(sizes.y_sample),
        padded{shape.input.height + 2 * shape.padding.height,
               shape.input.width + 2 * shape.padding.width},
        kernel_plane(shape.kernel.height * shape.kernel.width),
        in_plane(shape.input.height * shape.input.width),
        out_plane(output.height * output.width),
        taps(shape.in_channels * kernel_plane),
        in(reinterpret_cast<V*>(scratch.input)),
        out(reinterpret_cast<V*>(scratch.output)),
        weights(scratch.weights),
        tap_offsets(scratch.tap_offsets) {}

  // The group of samples that starts at sample n of a batch, whose samples are `distance` apart.
  template <class Element>
  Samples<Element> group(Element* batch, std::size_t n, std::size_t distance) const {
    const std::size_t rest = shape.batch - n;
    return {batch + n * distance, distance, rest < L::kCount ? rest : L::kCount};
  }

  // Call it before the first load_input; nothing writes to the border afterwards.
  void clear_padding() const { clear(in, shape.in_channels * padded.height * padded.width); }

  // The group at sample n of x, padded.
  void load_input(const T* x, std::size_t n) const {
    const Samples<const T> samples = group(x, n, x_sample);
    for (std::size_t c = 0; c < shape.in_channels; ++c) {
      for (std::size_t h = 0; h < shape.input.height; ++h) {
        const std::size_t row = c * padded.height + h + shape.padding.height;
        to_lanes<L>(samples.moved((c * shape.input.height + h) * shape.input.width),
                    shape.input.width, in + row * padded.width + shape.padding.width);
      }
    }
  }

  // The offset of each tap in the padded input, relative to the first tap.
  void write_tap_offsets() const {
    for (std::size_t t = 0; t < taps; ++t) {
      const std::size_t channel = t / kernel_plane;
      const std::size_t row = t % kernel_plane / shape.kernel.width;
      const std::size_t column = t % shape.kernel.width;
      tap_offsets[t] = (channel * padded.height + row) * padded.width + column;
    }
  }

  const Conv2dShape& shape;
  Size2d output;
  std::size_t x_sample, y_sample;  // from one sample to the next
  Size2d padded;
  std::size_t kernel_plane, in_plane, out_plane;  // pixels
  std::size_t taps;                               // of one output channel
  V* in;
  V* out;
  T* weights;
  std::size_t* tap_offsets;
};

}  // namespace
}  // namespace ddp::detail
