// SPDX-License-Identifier: MIT
//
// Compares convolution with straightforward loops.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/conv2d.h"
#include "support/kernel_values.h"
#include "support/openmp_threads.h"
#include "support/run_ranks.h"

namespace {

using ddp::buffer_of;
using ddp::Conv2dShape;
using ddp::Size2d;
using ddp::WriteMode;
using ddp::cpu::Conv2dBackend;
using ddp::test::check_close;
using ddp::test::error_of;
using ddp::test::expected_gradient;
using ddp::test::initial_gradient;
using ddp::test::uniform;
using ddp::test::Values;

// Calls f(index in x, index in weight, index in y) for every product of a convolution.
template <class F>
void for_each_product(const Conv2dShape& s, const F& f) {
  const Size2d out = s.output();
  const Conv2dShape group = s.group();
  const std::size_t taps = group.in_channels * s.kernel.count();
  std::size_t y = 0;
  for (std::size_t n = 0; n < s.batch; ++n) {
    for (std::size_t o = 0; o < s.out_channels; ++o) {
      for (std::size_t r = 0; r < out.height; ++r) {
        for (std::size_t c = 0; c < out.width; ++c, ++y) {
          for (std::size_t tap = 0; tap < taps; ++tap) {
            const std::size_t i =
                o / group.out_channels * group.in_channels + tap / s.kernel.count();
            const std::size_t h = tap / s.kernel.width % s.kernel.height, w = tap % s.kernel.width;
            const std::size_t row = r * s.stride.height + h, column = c * s.stride.width + w;
            if (row < s.padding.height || row - s.padding.height >= s.input.height) continue;
            if (column < s.padding.width || column - s.padding.width >= s.input.width) continue;
            const std::size_t x =
                ((n * s.in_channels + i) * s.input.height + row - s.padding.height) *
                    s.input.width +
                column - s.padding.width;
            f(x, o * taps + tap, y);
          }
        }
      }
    }
  }
}

// Batch sizes around the number of lanes of a vector, channel counts around the blocks of our loops
// and of oneDNN, odd sizes, strides larger than the kernel, few pixels, groups.
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
    {5, 17, 19, {9, 7}, {3, 3}, {1, 1}, {1, 1}},
    {3, 32, 16, {16, 15}, {3, 3}, {2, 2}, {1, 1}},
    {4, 16, 3, {8, 8}, {1, 1}},
    {3, 32, 32, {3, 3}, {3, 3}, {2, 2}, {1, 1}},
    {9, 4, 6, {7, 5}, {3, 3}, {1, 1}, {1, 1}, 2},
    {3, 5, 10, {6, 6}, {3, 2}, {2, 1}, {1, 0}, 5},
    {2, 32, 32, {9, 9}, {3, 3}, {1, 1}, {1, 1}, 32},
    {2, 32, 48, {5, 5}, {3, 3}, {1, 1}, {1, 1}, 2},
    {2, 3, 4, {0, 5}, {2, 2}, {1, 1}, {1, 1}},  // its input is only padding
};

// Null if this build or machine lacks the backend, or if it does not compute in this type.
template <class T>
std::unique_ptr<Conv2dBackend> make_backend(const std::string& name) {
  if (name == "loops") return ddp::cpu::make_loop_conv2d();
  if (name == "columns") return ddp::cpu::make_column_conv2d();
  if (name == "best") return ddp::cpu::make_conv2d();
  if (sizeof(T) != sizeof(float)) return nullptr;
  std::unique_ptr<Conv2dBackend> onednn = ddp::cpu::make_onednn_conv2d();
  if (!onednn) WARN("SKIPPED: no oneDNN");
  return onednn;
}

}  // namespace

TEMPLATE_TEST_CASE("conv2d_forward equals the sum of its definition", "[kernels][conv2d]", float,
                   double) {
  using T = TestType;
  const std::string name = GENERATE("loops", "columns", "onednn", "best");
  const auto backend = make_backend<T>(name);
  if (!backend) return;
  const Conv2dShape shape = GENERATE(from_range(kShapes));
  CAPTURE(name, shape.batch, shape.in_channels, shape.out_channels, shape.groups);
  Values<T> x = uniform<T>(shape.x_count(), 1), weight = uniform<T>(shape.weight_count(), 2);
  Values<T> bias = uniform<T>(GENERATE(true, false) ? shape.out_channels : 0, 3);
  Values<T> y(shape.y_count(), std::numeric_limits<T>::quiet_NaN());
  ddp::cpu::conv2d_forward(buffer_of(x), buffer_of(weight), buffer_of(bias), buffer_of(y), shape,
                           *backend);
  Values<double> expected(y.size());
  for (std::size_t i = 0; i < y.size() && !bias.empty(); ++i) {
    expected[i] = static_cast<double>(bias[i / shape.output().count() % shape.out_channels]);
  }
  for_each_product(shape, [&](std::size_t xi, std::size_t wi, std::size_t yi) {
    expected[yi] += static_cast<double>(x[xi]) * static_cast<double>(weight[wi]);
  });
  check_close(y, expected);
}

TEST_CASE("conv2d adds no bias without elements, even if it has an address", "[kernels][conv2d]") {
  const std::string name = GENERATE("loops", "columns", "onednn", "best");
  const auto backend = make_backend<float>(name);
  if (!backend) return;
  CAPTURE(name);
  const Conv2dShape shape{1, 1, 1, {1, 1}, {1, 1}};
  Values<float> x = {2}, weight = {3}, bias = {100}, y = {0};
  ddp::cpu::conv2d_forward(buffer_of(x), buffer_of(weight), buffer_of(bias).slice(0, 0),
                           buffer_of(y), shape, *backend);
  CHECK(y[0] == 6);
}

TEMPLATE_TEST_CASE("the gradients of conv2d equal the sums of their definition",
                   "[kernels][conv2d]", float, double) {
  using T = TestType;
  const std::string name = GENERATE("loops", "columns", "onednn", "best");
  const auto backend = make_backend<T>(name);
  if (!backend) return;
  const Conv2dShape shape = GENERATE(from_range(kShapes));
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  CAPTURE(name, shape.batch, shape.in_channels, shape.out_channels, shape.groups);
  Values<T> x = uniform<T>(shape.x_count(), 1), weight = uniform<T>(shape.weight_count(), 2);
  Values<T> grad_y = uniform<T>(shape.y_count(), 3);
  Values<T> grad_x = initial_gradient<T>(x.size(), mode);
  Values<T> grad_weight = initial_gradient<T>(weight.size(), mode);
  Values<T> grad_bias = initial_gradient<T>(shape.out_channels, mode);
  ddp::cpu::conv2d_grad_input(buffer_of(weight), buffer_of(grad_y), {buffer_of(grad_x), mode},
                              shape, *backend);
  ddp::cpu::conv2d_grad_weight(buffer_of(x), buffer_of(grad_y), {buffer_of(grad_weight), mode},
                               shape, *backend);
  ddp::cpu::channel_bias_grad(buffer_of(grad_y), {buffer_of(grad_bias), mode},
                              {shape.batch, shape.out_channels, shape.output().count()});

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

TEST_CASE(
    "a sample's convolution has the same bits wherever in a batch it stands, with any number of "
    "threads",
    "[kernels][conv2d]") {
  constexpr std::size_t kBatch = 19;
  // Shapes for which our loops, oneDNN's blocked algorithm and products are chosen.
  Conv2dShape shape = GENERATE(Conv2dShape{kBatch, 3, 7, {9, 6}, {3, 3}, {1, 1}, {1, 1}},
                               Conv2dShape{kBatch, 64, 64, {16, 16}, {3, 3}, {1, 1}, {1, 1}},
                               Conv2dShape{kBatch, 32, 64, {9, 9}, {3, 3}, {2, 2}, {1, 1}},
                               Conv2dShape{kBatch, 128, 256, {2, 2}, {3, 3}, {1, 1}, {1, 1}},
                               Conv2dShape{kBatch, 64, 128, {8, 8}, {1, 1}, {2, 2}},
                               Conv2dShape{kBatch, 64, 96, {8, 8}, {1, 1}},
                               Conv2dShape{kBatch, 64, 96, {8, 8}, {1, 1}, {1, 1}, {0, 0}, 2},
                               Conv2dShape{kBatch, 64, 96, {8, 8}, {1, 1}, {1, 1}, {1, 1}, 2},
                               Conv2dShape{kBatch, 128, 64, {3, 3}, {1, 1}},
                               Conv2dShape{kBatch, 32, 32, {9, 9}, {3, 3}, {1, 1}, {1, 1}, 32});
  CAPTURE(shape.in_channels, shape.out_channels, shape.input.height);
  const auto backend = ddp::cpu::make_conv2d();
  Values<float> x = uniform<float>(shape.x_count(), 1), y(shape.y_count()), grad_x(x.size());
  Values<float> weight = uniform<float>(shape.weight_count(), 2), bias(shape.out_channels, 0.5F);
  Values<float> grad_y = uniform<float>(shape.y_count(), 3);
  const auto run = [&](std::size_t first, std::size_t count, Values<float>& to_y,
                       Values<float>& to_grad_x) {
    const std::size_t x_size = x.size() / kBatch, y_size = y.size() / kBatch;
    shape.batch = count;
    to_y.resize(count * y_size);
    to_grad_x.resize(count * x_size);
    ddp::cpu::conv2d_forward(buffer_of(x).slice(first * x_size, to_grad_x.size()),
                             buffer_of(weight), buffer_of(bias), buffer_of(to_y), shape, *backend);
    ddp::cpu::conv2d_grad_input(buffer_of(weight),
                                buffer_of(grad_y).slice(first * y_size, to_y.size()),
                                {buffer_of(to_grad_x)}, shape, *backend);
  };
  run(0, kBatch, y, grad_x);
  for (const std::size_t count : {1U, 2U, 3U, 5U, 8U, 19U}) {
    const ddp::test::OpenMpThreads threads(static_cast<int>(count % 4 + 1));
    for (std::size_t first = 0; first + count <= kBatch; first += count) {
      Values<float> part, grad_part;
      run(first, count, part, grad_part);
      const auto at = [&](Values<float>& all, const Values<float>& of) {
        return all.begin() + static_cast<std::ptrdiff_t>(first * (of.size() / count));
      };
      REQUIRE(std::equal(part.begin(), part.end(), at(y, part)));
      REQUIRE(std::equal(grad_part.begin(), grad_part.end(), at(grad_x, grad_part)));
    }
  }
}

TEST_CASE("conv2d refuses a kernel that does not fit, and operands that disagree",
          "[kernels][conv2d]") {
  CHECK(error_of([] {
          static_cast<void>(Conv2dShape{1, 1, 1, {4, 4}, {3, 5}}.output());
        }) ==
        "[kernels] conv2d: a kernel of 3 x 5 with stride 1 x 1 does not fit an input of 4 x 4");
  CHECK(error_of([] {
          static_cast<void>(Conv2dShape{1, 4, 6, {4, 4}, {3, 3}, {1, 1}, {0, 0}, 4}.output());
        }) == "[kernels] conv2d: 4 groups do not divide 4 input and 6 output channels");
  Values<double> four(4), one(1);
  CHECK(error_of([&] {
          ddp::cpu::conv2d_forward(buffer_of(four), buffer_of(four), buffer_of(one),
                                   buffer_of(four), {1, 1, 1, {2, 2}, {1, 1}},
                                   *ddp::cpu::make_conv2d());
        }) == "[kernels] conv2d_forward: weight is float64[4] on cpu, expected float64[1] on cpu");
}
