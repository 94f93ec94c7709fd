// SPDX-License-Identifier: MIT
//
// Compares pooling and upsampling with straightforward loops.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/max_pool2d.h"
#include "ddp/kernels/upsample_nearest2d.h"
#include "support/kernel_values.h"
#include "support/run_ranks.h"

namespace {

using ddp::AdaptivePool2dShape;
using ddp::buffer_of;
using ddp::Pool2dShape;
using ddp::Size2d;
using ddp::Upsample2dShape;
using ddp::WriteMode;
using ddp::test::check_close;
using ddp::test::error_of;
using ddp::test::expected_gradient;
using ddp::test::initial_gradient;
using ddp::test::uniform;
using ddp::test::Values;

// Calls f(index in y, index in x) for each window and each pixel that it covers, window by
// window.
template <class F>
void for_each_pixel(const Pool2dShape& s, const F& f) {
  const Size2d out = s.output();
  for (std::size_t y = 0; y < s.y_count(); ++y) {
    const std::size_t plane = y / out.count() * s.input.count();
    for (std::size_t k = 0; k < s.kernel.count(); ++k) {
      const std::size_t row = y / out.width % out.height * s.stride.height + k / s.kernel.width;
      const std::size_t column = y % out.width * s.stride.width + k % s.kernel.width;
      if (row < s.padding.height || row - s.padding.height >= s.input.height) continue;
      if (column < s.padding.width || column - s.padding.width >= s.input.width) continue;
      f(y, plane + (row - s.padding.height) * s.input.width + column - s.padding.width);
    }
  }
}

// Windows that do not fill the image, that overlap, with padding, and that leave pixels out.
const std::vector<Pool2dShape> kShapes{
    {6, {28, 28}, {2, 2}, {2, 2}},       {5, {10, 10}, {2, 2}, {2, 2}},
    {2, {7, 9}, {2, 2}, {2, 2}},         {3, {2, 5}, {2, 2}, {2, 2}},
    {3, {8, 7}, {3, 2}, {1, 2}},         {1, {6, 6}, {3, 3}, {2, 2}},
    {2, {5, 5}, {1, 1}, {3, 3}},         {0, {4, 4}, {2, 2}, {2, 2}},
    {3, {8, 8}, {3, 3}, {2, 2}, {1, 1}}, {2, {5, 9}, {2, 4}, {1, 3}, {1, 2}},
    {2, {6, 6}, {2, 2}, {2, 2}, {1, 1}}, {1, {1, 1}, {3, 3}, {1, 1}, {1, 1}},
};

}  // namespace

TEMPLATE_TEST_CASE("max_pool2d_forward finds each window's first largest element",
                   "[kernels][max_pool2d]", float, double) {
  using T = TestType;
  const Pool2dShape shape = GENERATE(from_range(kShapes));
  // Few different values, so that many are equal, and none above 0, so that padding shows if it
  // wins.
  Values<T> x = uniform<T>(shape.x_count(), 1);
  for (T& value : x) value = std::round(2 * value) - 3;
  Values<T> y(shape.y_count(), std::numeric_limits<T>::quiet_NaN());
  std::vector<std::int32_t> indices(y.size(), -1);
  ddp::cpu::max_pool2d_forward(buffer_of(x), buffer_of(y), buffer_of(indices), shape);
  Values<T> largest(y.size(), -std::numeric_limits<T>::infinity());
  std::vector<std::int32_t> where(y.size(), -1);
  for_each_pixel(shape, [&](std::size_t window, std::size_t pixel) {
    if (x[pixel] <= largest[window]) return;
    largest[window] = x[pixel];
    where[window] = static_cast<std::int32_t>(pixel % shape.input.count());
  });
  CHECK(indices == where);
  CHECK(y == largest);
}

TEMPLATE_TEST_CASE("max_pool2d treats NaN as the largest value", "[kernels][max_pool2d]", float,
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
  const Pool2dShape shape{2, {3, 4}, {2, 2}, {1, 1}};
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

TEMPLATE_TEST_CASE("avg_pool2d counts padding as zeros, backward and forward",
                   "[kernels][avg_pool2d]", float, double) {
  using T = TestType;
  const Pool2dShape shape = GENERATE(from_range(kShapes));
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  Values<T> x = uniform<T>(shape.x_count(), 1), y(shape.y_count());
  Values<T> grad_y = uniform<T>(shape.y_count(), 2);
  Values<T> grad_x = initial_gradient<T>(x.size(), mode);
  ddp::cpu::avg_pool2d_forward(buffer_of(x), buffer_of(y), shape);
  ddp::cpu::avg_pool2d_backward(buffer_of(grad_y), {buffer_of(grad_x), mode}, shape);
  Values<double> means(y.size()), sums(x.size());
  const auto pixels = static_cast<double>(shape.kernel.count());
  for_each_pixel(shape, [&](std::size_t window, std::size_t pixel) {
    means[window] += static_cast<double>(x[pixel]) / pixels;
    sums[pixel] += static_cast<double>(grad_y[window]) / pixels;
  });
  check_close(y, means);
  check_close(grad_x, expected_gradient<T>(sums, mode));
}

TEMPLATE_TEST_CASE("adaptive windows cover an image evenly, backward and forward",
                   "[kernels][avg_pool2d]", float, double) {
  using T = TestType;
  const auto shape =
      GENERATE(AdaptivePool2dShape{3, {4, 6}, {1, 1}}, AdaptivePool2dShape{2, {7, 5}, {3, 2}},
               AdaptivePool2dShape{2, {3, 4}, {5, 4}}, AdaptivePool2dShape{0, {3, 4}, {5, 4}});
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  Values<T> x = uniform<T>(shape.x_count(), 1), y(shape.y_count());
  Values<T> grad_y = uniform<T>(shape.y_count(), 2);
  Values<T> grad_x = initial_gradient<T>(x.size(), mode);
  ddp::cpu::avg_pool2d_forward(buffer_of(x), buffer_of(y), shape);
  ddp::cpu::avg_pool2d_backward(buffer_of(grad_y), {buffer_of(grad_x), mode}, shape);
  Values<double> means(y.size()), sums(x.size());
  const auto covers = [](std::size_t i, std::size_t n, std::size_t length, std::size_t at) {
    const double step = static_cast<double>(length) / static_cast<double>(n);
    const auto position = static_cast<double>(at);
    return position >= std::floor(static_cast<double>(i) * step) &&
           position < std::ceil(static_cast<double>(i + 1) * step);
  };
  for (std::size_t window = 0; window < y.size(); ++window) {
    std::vector<std::size_t> pixels;
    for (std::size_t i = 0; i < shape.input.count(); ++i) {
      if (covers(window / shape.windows.width % shape.windows.height, shape.windows.height,
                 shape.input.height, i / shape.input.width) &&
          covers(window % shape.windows.width, shape.windows.width, shape.input.width,
                 i % shape.input.width)) {
        pixels.push_back(window / shape.windows.count() * shape.input.count() + i);
      }
    }
    for (const std::size_t pixel : pixels) {
      means[window] += static_cast<double>(x[pixel]) / static_cast<double>(pixels.size());
      sums[pixel] += static_cast<double>(grad_y[window]) / static_cast<double>(pixels.size());
    }
  }
  check_close(y, means);
  check_close(grad_x, expected_gradient<T>(sums, mode));
}

TEST_CASE("a mean over a large image is exact to float32's last bits", "[kernels][avg_pool2d]") {
  constexpr std::size_t kSide = 1024;
  Values<float> x(kSide * kSide, 0.1F), y(1);
  ddp::cpu::avg_pool2d_forward(buffer_of(x), buffer_of(y),
                               AdaptivePool2dShape{1, {kSide, kSide}, {1, 1}});
  CHECK(y[0] == 0.1F);
  ddp::cpu::avg_pool2d_forward(buffer_of(x), buffer_of(y),
                               Pool2dShape{1, {kSide, kSide}, {kSide, kSide}, {1, 1}});
  CHECK(y[0] == 0.1F);
}

TEMPLATE_TEST_CASE("upsample_nearest2d makes blocks, and sums gradients over them",
                   "[kernels][upsample]", float, double) {
  using T = TestType;
  const auto shape =
      GENERATE(Upsample2dShape{3, {4, 5}, {2, 2}}, Upsample2dShape{2, {1, 3}, {1, 3}},
               Upsample2dShape{0, {4, 5}, {2, 2}});
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  Values<T> x = uniform<T>(shape.x_count(), 1), y(shape.y_count());
  Values<T> grad_y = uniform<T>(shape.y_count(), 2);
  Values<T> grad_x = initial_gradient<T>(x.size(), mode);
  ddp::cpu::upsample_nearest2d_forward(buffer_of(x), buffer_of(y), shape);
  ddp::cpu::upsample_nearest2d_backward(buffer_of(grad_y), {buffer_of(grad_x), mode}, shape);
  const Size2d out = shape.output();
  Values<double> expected(y.size()), sums(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / out.width % out.height / shape.scale.height;
    const std::size_t pixel = i / out.count() * shape.input.count() + row * shape.input.width +
                              i % out.width / shape.scale.width;
    expected[i] = static_cast<double>(x[pixel]);
    sums[pixel] += static_cast<double>(grad_y[i]);
  }
  check_close(y, expected);
  check_close(grad_x, expected_gradient<T>(sums, mode));
}

TEST_CASE("pooling and upsampling refuse impossible sizes", "[kernels]") {
  CHECK(error_of([] {
          static_cast<void>(Pool2dShape{1, {8, 8}, {3, 3}, {1, 1}, {2, 1}}.output());
        }) == "[kernels] pool2d: a padding of 2 x 1 is more than half of a kernel of 3 x 3");
  CHECK(error_of([] {
          static_cast<void>(Pool2dShape{1, {2, 2}, {3, 3}, {1, 1}}.output());
        }) ==
        "[kernels] pool2d: a kernel of 3 x 3 with stride 1 x 1 does not fit an input of 2 x 2");
  CHECK(error_of([] {
          static_cast<void>(AdaptivePool2dShape{1, {2, 2}, {0, 1}}.output());
        }) == "[kernels] adaptive_pool2d: cannot have 0 x 1 windows over an input of 2 x 2");
  CHECK(error_of([] {
          static_cast<void>(Upsample2dShape{1, {2, 2}, {0, 1}}.output());
        }) == "[kernels] upsample_nearest2d: a scale of 0 x 1");
  CHECK(error_of([] { (void)Size2d(-1); }) ==
        "[kernels] a shape or size of -1: it cannot be negative");
  CHECK(error_of([] { (void)Size2d(1, -2); }) ==
        "[kernels] a shape or size of -2: it cannot be negative");
  CHECK(error_of([] { (void)Size2d(Size2d::kLargest + 1, 1); }) ==
        "[kernels] a size of 2147483648 x 1: at most 2147483647 is possible");
}
