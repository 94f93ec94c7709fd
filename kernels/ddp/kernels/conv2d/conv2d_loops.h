// SPDX-License-Identifier: MIT
//
// The loops of conv2d_lanes.h, compiled for one instruction set; conv2d_loops.cpp chooses one set.
#pragma once

#include <cstddef>

#include "ddp/kernels/conv2d.h"

namespace ddp::detail {

// A checked call for one group, whose channels may be a part of each sample's channels.
struct Conv2dSizes {
  Conv2dShape shape;  // groups = 1
  Size2d output;
  std::size_t x_sample;  // from one sample to the next, in elements
  std::size_t y_sample;
};

// Memory for one group of samples, aligned to 64 bytes; `lanes` elements for each pixel.
template <class T>
struct Conv2dScratch {
  T* input;                  // in_channels x the padded input
  T* output;                 // out_channels x height x (width + 2)
  T* weights;                // out_channels x in_channels x kernel, with lanes
  std::size_t* tap_offsets;  // in_channels x kernel
  const T* no_bias;          // out_channels zeros
};

template <class T>
struct Conv2dLoops {
  std::size_t lanes;
  void (*forward)(const Conv2dSizes&, const T* x, const T* weight, const T* bias, T* y,
                  const Conv2dScratch<T>&);
  void (*grad_input)(const Conv2dSizes&, const T* weight, const T* grad_y, T* grad_x, WriteMode,
                     const Conv2dScratch<T>&);
  void (*grad_weight)(const Conv2dSizes&, const T* x, const T* grad_y, T* grad_weight, WriteMode,
                      const Conv2dScratch<T>&);
};

struct Conv2dLoopsOfBoth {
  Conv2dLoops<float> single;
  Conv2dLoops<double> exact;
};

// For every processor of the architecture that is compiled for.
[[nodiscard]] const Conv2dLoopsOfBoth& conv2d_baseline_loops();
// For x86 processors with AVX2 and FMA, and for those that have AVX-512, too; null on another
// processor.
[[nodiscard]] const Conv2dLoopsOfBoth* conv2d_avx2_loops();
[[nodiscard]] const Conv2dLoopsOfBoth* conv2d_avx512_loops();

}  // namespace ddp::detail
