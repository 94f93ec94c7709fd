// SPDX-License-Identifier: MIT
//
// Convolution and pooling against straightforward loops.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/max_pool2d.h"
#include "support/run_ranks.h"

namespace {

using ddp::buffer_of;
using ddp::Conv2dShape;
using ddp::MaxPool2dShape;
using ddp::Size2d;
using ddp::WriteMode;
using ddp::test::error_of;

template <class T>
using Values = std::vector<T>;

template <class T>
Values<T> uniform(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  Values<T> values(count);
  for (T& value : values) value = static_cast<T>(draw(engine));
  return values;
}

// What is in a gradient's memory before a kernel writes it: nothing usable, or a gradient.
template <class T>
Values<T> initial_gradient(std::size_t count, WriteMode mode) {
  return mode == WriteMode::kOverwrite ? Values<T>(count, std::numeric_limits<T>::quiet_NaN())
                                       : uniform<T>(count, 99);
}

// `sums` added to it in the given mode.
template <class T>
Values<double> expected_gradient(Values<double> sums, WriteMode mode) {
  if (mode == WriteMode::kOverwrite) return sums;
  const Values<T> before = initial_gradient<T>(sums.size(), mode);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(before[i]);
  return sums;
}

template <class T>
void check_close(const Values<T>& values, const Values<double>& expected) {
  constexpr double kTolerance = sizeof(T) == sizeof(float) ? 3e-5 : 1e-13;
  REQUIRE(values.size() == expected.size());
  const auto is_close = [](T value, double wanted) {
    return std::abs(static_cast<double>(value) - wanted) <= kTolerance * (1 + std::abs(wanted));
  };
  const auto differing = std::ranges::mismatch(values, expected, is_close).in1 - values.begin();
  CHECK(differing == static_cast<std::ptrdiff_t>(values.size()));  // the first that differs
}

// Calls f(index in x, index in weight, index in y) for every product of a convolution.
template <class F>
void for_each_product(const Conv2dShape& s, const F& f) {
  const Size2d out = s.output();
  std::size_t y = 0;
  for (std::size_t n = 0; n < s.batch; ++n) {
    for (std::size_t o = 0; o < s.out_channels; ++o) {
      for (std::size_t r = 0; r < out.height; ++r) {
        for (std::size_t c = 0; c < out.width; ++c, ++y) {
          for (std::size_t tap = 0; tap < s.in_channels * s.kernel.count(); ++tap) {
            const std::size_t i = tap / s.kernel.count();
            const std::size_t h = tap / s.kernel.width % s.kernel.height, w = tap % s.kernel.width;
            const std::size_t row = r * s.stride.height + h, column = c * s.stride.width + w;
            if (row < s.padding.height || row - s.padding.height >= s.input.height) continue;
            if (column < s.padding.width || column - s.padding.width >= s.input.width) continue;
            const std::size_t x =
                ((n * s.in_channels + i) * s.input.height + row - s.padding.height) *
                    s.input.width +
                column - s.padding.width;
            f(x, o * s.in_channels * s.kernel.count() + tap, y);
          }
        }
      }
    }
  }
}

// Batches around the lanes of a vector, channels around the blocks of a loop, sizes that are no
// multiple of anything, strides larger than the kernel.
const std::vector<Conv2dShape> kShapes{
    {1, 1, 1, {1, 1}, {1, 1}},
    {0, 2, 3, {5, 4}, {3, 3}},
    {1, 3, 2, {5, 7}, {3, 2}, {1, 1}, {1, 1}},
    {9, 2, 7, {8, 9}, {3, 3}, {2, 2}, {1, 1}},
    {5, 1, 6, {28, 28}, {5, 5}, {1, 1}, {2, 2}},
    {8, 6, 16, {14, 14}, {5, 5}},
    {17, 7, 5, {6, 11}, {4, 3}, {3, 2}, {2, 0}},
    {4, 13, 13, {3, 3}, {3, 3}, {1, 1}, {2, 2}},
    {3, 2, 4, {9, 9}, {2, 2}, {3, 4}},
    {2, 3, 12, {1, 17}, {1, 5}, {1, 2}, {0, 3}},
};

}  // namespace

TEMPLATE_TEST_CASE("conv2d_forward equals the sum of its definition", "[kernels][conv2d]", float,
                   double) {
  using T = TestType;
  const Conv2dShape shape = GENERATE(from_range(kShapes));
  CAPTURE(shape.batch, shape.in_channels, shape.out_channels);
  Values<T> x = uniform<T>(shape.x_count(), 1), weight = uniform<T>(shape.weight_count(), 2);
  Values<T> bias = uniform<T>(shape.out_channels, 3);
  Values<T> y(shape.y_count(), std::numeric_limits<T>::quiet_NaN());
  ddp::cpu::conv2d_forward(buffer_of(x), buffer_of(weight), buffer_of(bias), buffer_of(y), shape);
  Values<double> expected(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    expected[i] = static_cast<double>(bias[i / shape.output().count() % shape.out_channels]);
  }
  for_each_product(shape, [&](std::size_t xi, std::size_t wi, std::size_t yi) {
    expected[yi] += static_cast<double>(x[xi]) * static_cast<double>(weight[wi]);
  });
  check_close(y, expected);
}

TEMPLATE_TEST_CASE("the gradients of conv2d equal the sums of their definition",
                   "[kernels][conv2d]", float, double) {
  using T = TestType;
  const Conv2dShape shape = GENERATE(from_range(kShapes));
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  CAPTURE(shape.batch, shape.in_channels, shape.out_channels);
  Values<T> x = uniform<T>(shape.x_count(), 1), weight = uniform<T>(shape.weight_count(), 2);
  Values<T> grad_y = uniform<T>(shape.y_count(), 3);
  Values<T> grad_x = initial_gradient<T>(x.size(), mode);
  Values<T> grad_weight = initial_gradient<T>(weight.size(), mode);
  Values<T> grad_bias = initial_gradient<T>(shape.out_channels, mode);
  ddp::cpu::conv2d_grad_input(buffer_of(weight), buffer_of(grad_y), {buffer_of(grad_x), mode},
                              shape);
  ddp::cpu::conv2d_grad_weight(buffer_of(x), buffer_of(grad_y), {buffer_of(grad_weight), mode},
                               shape);
  ddp::cpu::conv2d_grad_bias(buffer_of(grad_y), {buffer_of(grad_bias), mode}, shape);

  Values<double> x_sums(x.size()), weight_sums(weight.size()), bias_sums(shape.out_channels);
  for_each_product(shape, [&](std::size_t xi, std::size_t wi, std::size_t yi) {
    x_sums[xi] += static_cast<double>(weight[wi]) * static_cast<double>(grad_y[yi]);
    weight_sums[wi] += static_cast<double>(x[xi]) * static_cast<double>(grad_y[yi]);
  });
  for (std::size_t i = 0; i < grad_y.size(); ++i) {
    bias_sums[i / shape.output().count() % shape.out_channels] += static_cast<double>(grad_y[i]);
  }
  check_close(grad_x, expected_gradient<T>(x_sums, mode));
  check_close(grad_weight, expected_gradient<T>(weight_sums, mode));
  check_close(grad_bias, expected_gradient<T>(bias_sums, mode));
}

TEST_CASE("a sample's convolution has the same bits wherever in a batch it stands",
          "[kernels][conv2d]") {
  constexpr std::size_t kBatch = 19;
  Conv2dShape shape{kBatch, 3, 7, {9, 6}, {3, 3}, {1, 1}, {1, 1}};
  Values<float> x = uniform<float>(shape.x_count(), 1), y(shape.y_count());
  Values<float> weight = uniform<float>(shape.weight_count(), 2), bias = uniform<float>(7, 3);
  ddp::cpu::conv2d_forward(buffer_of(x), buffer_of(weight), buffer_of(bias), buffer_of(y), shape);
  shape.batch = 1;
  for (std::size_t n = 0; n < kBatch; ++n) {
    Values<float> alone(shape.y_count());
    ddp::cpu::conv2d_forward(buffer_of(x).slice(n * shape.x_count(), shape.x_count()),
                             buffer_of(weight), buffer_of(bias), buffer_of(alone), shape);
    const auto first = y.begin() + static_cast<std::ptrdiff_t>(n * alone.size());
    CHECK(std::equal(alone.begin(), alone.end(), first));
  }
}

TEST_CASE("conv2d refuses a kernel that does not fit, and operands that disagree",
          "[kernels][conv2d]") {
  CHECK(error_of([] {
          static_cast<void>(Conv2dShape{1, 1, 1, {4, 4}, {3, 5}}.output());
        }) ==
        "[kernels] conv2d: a kernel of 3 x 5 with stride 1 x 1 does not fit an input of 4 x 4");
  Values<double> four(4), one(1);
  CHECK(error_of([&] {
          ddp::cpu::conv2d_forward(buffer_of(four), buffer_of(four), buffer_of(one),
                                   buffer_of(four), {1, 1, 1, {2, 2}, {1, 1}});
        }) == "[kernels] conv2d_forward: weight is float64[4] on cpu, expected float64[1] on cpu");
}

TEMPLATE_TEST_CASE("max_pool2d_forward finds each window's first largest element",
                   "[kernels][max_pool2d]", float, double) {
  using T = TestType;
  const auto shape = GENERATE(
      MaxPool2dShape{6, {28, 28}, {2, 2}, {2, 2}}, MaxPool2dShape{5, {10, 10}, {2, 2}, {2, 2}},
      MaxPool2dShape{2, {7, 9}, {2, 2}, {2, 2}}, MaxPool2dShape{3, {2, 5}, {2, 2}, {2, 2}},
      MaxPool2dShape{3, {8, 7}, {3, 2}, {1, 2}}, MaxPool2dShape{1, {6, 6}, {3, 3}, {2, 2}},
      MaxPool2dShape{2, {5, 5}, {1, 1}, {3, 3}}, MaxPool2dShape{0, {4, 4}, {2, 2}, {2, 2}});
  // Few different values, so that many are equal.
  Values<T> x = uniform<T>(shape.x_count(), 1);
  for (T& value : x) value = std::round(2 * value);
  Values<T> y(shape.y_count(), std::numeric_limits<T>::quiet_NaN());
  std::vector<std::int32_t> indices(y.size(), -1);
  ddp::cpu::max_pool2d_forward(buffer_of(x), buffer_of(y), buffer_of(indices), shape);
  const Size2d out = shape.output();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const T* plane = &x[i / out.count() * shape.input.count()];
    const std::size_t first = i / out.width % out.height * shape.stride.height * shape.input.width +
                              i % out.width * shape.stride.width;
    std::size_t best = first;
    for (std::size_t k = 0; k < shape.kernel.count(); ++k) {
      const std::size_t at =
          first + k / shape.kernel.width * shape.input.width + k % shape.kernel.width;
      if (plane[at] > plane[best]) best = at;
    }
    CAPTURE(i);
    REQUIRE(indices[i] == static_cast<std::int32_t>(best));
    REQUIRE(y[i] == plane[best]);
  }
}

TEMPLATE_TEST_CASE("max_pool2d takes a NaN for the largest of all", "[kernels][max_pool2d]", float,
                   double) {
  constexpr TestType kNan = std::numeric_limits<TestType>::quiet_NaN();
  const std::size_t where = GENERATE(0U, 1U, 10U, 11U);
  Values<TestType> x(20, 5), y(5);
  x[where] = kNan;
  std::vector<std::int32_t> indices(5);
  ddp::cpu::max_pool2d_forward(buffer_of(x), buffer_of(y), buffer_of(indices),
                               {1, {2, 10}, {2, 2}, {2, 2}});
  CHECK(std::isnan(y[0]));
  CHECK(indices == std::vector<std::int32_t>{static_cast<std::int32_t>(where), 2, 4, 6, 8});
  CHECK(y[1] == 5);
}

TEST_CASE("max_pool2d_backward adds up the windows that chose an element",
          "[kernels][max_pool2d]") {
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  const MaxPool2dShape shape{2, {3, 4}, {2, 2}, {1, 1}};
  // The element in the middle is the largest of four windows.
  Values<double> x{0, 1, 2, 3, 4, 9, 5, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0};
  Values<double> y(shape.y_count());
  std::vector<std::int32_t> indices(y.size());
  ddp::cpu::max_pool2d_forward(buffer_of(x), buffer_of(y), buffer_of(indices), shape);
  Values<double> grad_y(y.size());
  for (std::size_t i = 0; i < grad_y.size(); ++i) grad_y[i] = std::exp2(static_cast<double>(i));
  Values<double> sums(x.size(), 0);
  sums[5] = 1 + 2 + 8 + 16;
  sums[6] = 4 + 32;
  sums[12 + 5] = 64 + 128 + 512 + 1024;
  sums[12 + 2] = 256;
  sums[12 + 6] = 2048;
  Values<double> grad_x = initial_gradient<double>(x.size(), mode);
  ddp::cpu::max_pool2d_backward(buffer_of(grad_y), buffer_of(indices), {buffer_of(grad_x), mode},
                                shape);
  check_close(grad_x, expected_gradient<double>(sums, mode));
}
