// SPDX-License-Identifier: MIT
//
// Convolution on the CPU the usual way: columns (im2col) and a matrix product for each sample. The
// rival of ddp/kernels/conv2d.h. Stride 1, float32.
#pragma once

#include <vector>

#include "ddp/kernels/conv2d.h"

namespace ddp::bench {

class ColumnConv2d {
 public:
  explicit ColumnConv2d(const Conv2dShape& shape);

  void forward(std::vector<float>& x, std::vector<float>& weight, const std::vector<float>& bias,
               std::vector<float>& y);
  void grad_input(std::vector<float>& weight, std::vector<float>& grad_y,
                  std::vector<float>& grad_x);
  void grad_weight(std::vector<float>& x, std::vector<float>& grad_y,
                   std::vector<float>& grad_weight);

 private:
  // Calls f(part of the row of x, the same part of the row of columns, its length) for every row.
  template <class F>
  void for_each_row(float* x, std::vector<float>& columns, const F& f);

  Conv2dShape shape_;
  Size2d output_;
  std::size_t taps_;
  // Of one sample: taps x pixels of y.
  std::vector<float> columns_;  // zero where the kernel covers padding, and never written there
  std::vector<float> grad_columns_;
};

}  // namespace ddp::bench
