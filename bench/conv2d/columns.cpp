// SPDX-License-Identifier: MIT
#include "conv2d/columns.h"

#include <algorithm>

namespace ddp::bench {

ColumnConv2d::ColumnConv2d(const Conv2dShape& shape)
    : shape_(shape),
      output_(shape.output()),
      taps_(shape.in_channels * shape.kernel.count()),
      columns_(taps_ * output_.count()),
      grad_columns_(columns_.size()) {}

template <class F>
void ColumnConv2d::for_each_row(float* x, std::vector<float>& columns, const F& f) {
  float* row = columns.data();
  for (std::size_t tap = 0; tap < taps_; ++tap) {
    const std::size_t channel = tap / shape_.kernel.count();
    const std::size_t h = tap / shape_.kernel.width % shape_.kernel.height;
    const std::size_t w = tap % shape_.kernel.width;
    // The columns of y whose pixel under this tap is no padding.
    const std::size_t begin = w < shape_.padding.width ? shape_.padding.width - w : 0;
    const std::size_t end = std::min(output_.width, shape_.input.width + shape_.padding.width - w);
    for (std::size_t r = 0; r < output_.height; ++r, row += output_.width) {
      const std::size_t x_row = r + h - shape_.padding.height;  // wraps around above the image
      if (x_row >= shape_.input.height) continue;
      float* source = x + (channel * shape_.input.height + x_row) * shape_.input.width;
      f(source + begin + w - shape_.padding.width, row + begin, end - begin);
    }
  }
}

void ColumnConv2d::forward(std::vector<float>& x, std::vector<float>& weight,
                           const std::vector<float>& bias, std::vector<float>& y) {
  const std::size_t x_size = x.size() / shape_.batch, y_size = y.size() / shape_.batch;
  for (std::size_t n = 0; n < shape_.batch; ++n) {
    for_each_row(&x[n * x_size], columns_, [](const float* from, float* to, std::size_t count) {
      std::copy_n(from, count, to);
    });
    for (std::size_t o = 0; o < shape_.out_channels; ++o) {
      std::fill_n(&y[n * y_size + o * output_.count()], output_.count(), bias[o]);
    }
    cpu::gemm(buffer_of(weight), buffer_of(columns_), buffer_of(y).slice(n * y_size, y_size),
              {shape_.out_channels, output_.count(), taps_}, {.beta = 1});
  }
}

void ColumnConv2d::grad_input(std::vector<float>& weight, std::vector<float>& grad_y,
                              std::vector<float>& grad_x) {
  const std::size_t x_size = grad_x.size() / shape_.batch, y_size = grad_y.size() / shape_.batch;
  std::ranges::fill(grad_x, 0.F);
  for (std::size_t n = 0; n < shape_.batch; ++n) {
    cpu::gemm(buffer_of(weight), buffer_of(grad_y).slice(n * y_size, y_size),
              buffer_of(grad_columns_), {taps_, output_.count(), shape_.out_channels},
              {.transpose_a = Transpose::kYes});
    for_each_row(&grad_x[n * x_size], grad_columns_,
                 [](float* to, const float* from, std::size_t count) {
                   for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
                 });
  }
}

void ColumnConv2d::grad_weight(std::vector<float>& x, std::vector<float>& grad_y,
                               std::vector<float>& grad_weight) {
  const std::size_t x_size = x.size() / shape_.batch, y_size = grad_y.size() / shape_.batch;
  for (std::size_t n = 0; n < shape_.batch; ++n) {
    for_each_row(&x[n * x_size], columns_, [](const float* from, float* to, std::size_t count) {
      std::copy_n(from, count, to);
    });
    cpu::gemm(buffer_of(grad_y).slice(n * y_size, y_size), buffer_of(columns_),
              buffer_of(grad_weight), {shape_.out_channels, taps_, output_.count()},
              {.transpose_b = Transpose::kYes, .beta = n == 0 ? 0.0 : 1.0});
  }
}

}  // namespace ddp::bench
