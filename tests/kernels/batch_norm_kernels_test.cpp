// SPDX-License-Identifier: MIT
//
// Compares the kernels of batch norm with plain loops in float64.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "ddp/kernels/batch_norm.h"
#include "ddp/kernels/channel_moments.h"
#include "support/kernel_values.h"

namespace {

using ddp::buffer_of;
using ddp::ChannelShape;
using ddp::WriteMode;
using ddp::test::check_close;
using ddp::test::expected_gradient;
using ddp::test::initial_gradient;
using ddp::test::poison;
using ddp::test::uniform;
using ddp::test::Values;
using Doubles = std::vector<double>;

ChannelShape any_shape() {
  return GENERATE(ChannelShape{1, 1, 1}, ChannelShape{0, 3, 1}, ChannelShape{3, 0, 1},
                  ChannelShape{31, 37, 1}, ChannelShape{5, 64, 1}, ChannelShape{700, 3, 1},
                  ChannelShape{3, 5, 0}, ChannelShape{7, 5, 3}, ChannelShape{3, 2, 101});
}

// Operands with a mean far from 0, and each channel's number in a loop over elements.
template <class T>
struct BatchNormRun {
  explicit BatchNormRun(const ChannelShape& of)
      : shape(of),
        x(uniform<T>(shape.count(), 1)),
        grad_y(uniform<T>(shape.count(), 2)),
        mean(uniform<T>(shape.channels, 3)),
        invstd(uniform<T>(shape.channels, 4)),
        weight(uniform<T>(shape.channels, 5)) {
    for (T& element : x) element += T{100};
    for (T& element : mean) element += T{100};
  }

  [[nodiscard]] std::size_t channel(std::size_t i) const {
    return i / shape.plane % shape.channels;
  }
  [[nodiscard]] double centred(std::size_t i) const {
    return static_cast<double>(x[i]) - static_cast<double>(mean[channel(i)]);
  }
  [[nodiscard]] double scale(std::size_t c, bool is_weighted) const {
    return static_cast<double>(invstd[c]) * (is_weighted ? static_cast<double>(weight[c]) : 1);
  }
  [[nodiscard]] ddp::BatchNormOperands operands(bool is_weighted) {
    return {buffer_of(mean), buffer_of(invstd),
            buffer_of(weight).slice(0, is_weighted ? shape.channels : 0)};
  }

  ChannelShape shape;
  Values<T> x, grad_y, mean, invstd, weight;
};

}  // namespace

TEMPLATE_TEST_CASE("channel_moments equals its definition, for a large mean as well", "[kernels]",
                   float, double) {
  BatchNormRun<TestType> run(any_shape());
  const std::size_t channels = run.shape.channels;
  const auto n = static_cast<double>(run.shape.per_channel());
  Doubles expected(ddp::moments_count(channels)), moments = poison<double>(expected.size());
  for (std::size_t i = 0; i < run.x.size(); ++i) {
    expected[run.channel(i)] += static_cast<double>(run.x[i]) / n;
  }
  for (std::size_t i = 0; i < run.x.size(); ++i) {
    const std::size_t c = run.channel(i);
    expected[channels + c] += std::pow(static_cast<double>(run.x[i]) - expected[c], 2);
  }
  if (!run.x.empty()) expected.back() = n;
  ddp::cpu::channel_moments(buffer_of(run.x), buffer_of(moments), run.shape);
  check_close(moments, expected);
}

TEMPLATE_TEST_CASE("batch_norm_forward equals the formula, even in place", "[kernels]", float,
                   double) {
  using T = TestType;
  BatchNormRun<T> run(any_shape());
  const bool is_affine = GENERATE(true, false);
  Values<T> bias = uniform<T>(is_affine ? run.shape.channels : 0, 6), y = poison<T>(run.x.size());
  Doubles expected(run.x.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::size_t c = run.channel(i);
    expected[i] =
        run.centred(i) * run.scale(c, is_affine) + (is_affine ? static_cast<double>(bias[c]) : 0);
  }
  ddp::cpu::batch_norm_forward(buffer_of(run.x), run.operands(is_affine), buffer_of(bias),
                               buffer_of(y), run.shape);
  check_close(y, expected);
  ddp::cpu::batch_norm_forward(buffer_of(run.x), run.operands(is_affine), buffer_of(bias),
                               buffer_of(run.x), run.shape);
  CHECK(run.x == y);
}

TEMPLATE_TEST_CASE("batch_norm_sums equals its definition", "[kernels]", float, double) {
  using T = TestType;
  BatchNormRun<T> run(any_shape());
  Doubles expected(2 * run.shape.channels), sums = poison<double>(expected.size());
  for (std::size_t i = 0; i < run.x.size(); ++i) {
    const auto incoming = static_cast<double>(run.grad_y[i]);
    expected[run.channel(i)] += incoming;
    expected[run.shape.channels + run.channel(i)] += incoming * run.centred(i);
  }
  ddp::cpu::batch_norm_sums(buffer_of(run.x), buffer_of(run.grad_y), buffer_of(run.mean),
                            buffer_of(sums), run.shape);
  check_close(Values<T>(sums.begin(), sums.end()), expected);  // its terms are of type T
}

TEMPLATE_TEST_CASE("batch_norm_grad_input equals the formula", "[kernels]", float, double) {
  using T = TestType;
  BatchNormRun<T> run(any_shape());
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  const bool has_terms = GENERATE(true, false);
  const std::size_t channels = run.shape.channels;
  Values<T> terms = uniform<T>(has_terms ? 2 * channels : 0, 6);
  Values<T> grad_x = initial_gradient<T>(run.x.size(), mode);
  const auto term = [&](std::size_t i) { return has_terms ? static_cast<double>(terms[i]) : 0; };
  Doubles expected(run.x.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::size_t c = run.channel(i);
    expected[i] = run.scale(c, true) * (static_cast<double>(run.grad_y[i]) - term(c) -
                                        run.centred(i) * term(channels + c));
  }
  ddp::cpu::batch_norm_grad_input(buffer_of(run.x), buffer_of(run.grad_y), run.operands(true),
                                  buffer_of(terms), {buffer_of(grad_x), mode}, run.shape);
  check_close(grad_x, expected_gradient<T>(expected, mode));
}

TEST_CASE("an infinite input leaves the gradient of a batch norm in evaluation finite",
          "[kernels]") {
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  const ChannelShape shape = GENERATE(ChannelShape{2, 2, 1}, ChannelShape{1, 2, 2});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Doubles x{kInfinity, -kInfinity, 1, kInfinity}, grad_y{1, 2, 3, 4}, mean{1, 2}, invstd{3, 3};
  Doubles grad_x = initial_gradient<double>(4, mode);
  ddp::cpu::batch_norm_grad_input(buffer_of(x), buffer_of(grad_y),
                                  {buffer_of(mean), buffer_of(invstd), {}}, {},
                                  {buffer_of(grad_x), mode}, shape);
  check_close(grad_x, expected_gradient<double>({3, 6, 9, 12}, mode));
}
