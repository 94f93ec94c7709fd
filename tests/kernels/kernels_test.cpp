// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/binary.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/channel_moments.h"
#include "ddp/kernels/columns.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/cross_entropy.h"
#include "ddp/kernels/gemm.h"
#include "ddp/kernels/grad_norm.h"
#include "ddp/kernels/sgd.h"
#include "ddp/kernels/softmax.h"
#include "ddp/kernels/transpose.h"
#include "ddp/kernels/unary.h"
#include "support/run_ranks.h"

namespace {

using ddp::buffer_of;
using ddp::MatrixShape;
using ddp::WriteMode;
using ddp::test::error_of;
using Doubles = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr ddp::UnaryFunction kRelu{ddp::UnaryKind::kRelu};

Doubles uniform(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(-2, 2);
  Doubles values(count);
  for (double& value : values) value = draw(engine);
  return values;
}

std::vector<std::int64_t> labels_below(std::int64_t classes, std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::int64_t> labels(count);
  for (std::int64_t& label : labels) label = static_cast<std::int64_t>(engine()) % classes;
  return labels;
}

void check_close(const Doubles& values, const Doubles& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(values[i] == Approx(expected[i]).epsilon(1e-13).margin(1e-14));
  }
}

// The contents of a gradient's memory before a kernel writes it: poison, or an earlier gradient.
Doubles initial_gradient(std::size_t count, WriteMode mode) {
  return mode == WriteMode::kOverwrite ? Doubles(count, kNan) : uniform(count, 99);
}

// The contents that the kernel must leave.
Doubles expected_gradient(const Doubles& gradient, WriteMode mode) {
  Doubles expected = initial_gradient(gradient.size(), mode);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = mode == WriteMode::kOverwrite ? gradient[i] : expected[i] + gradient[i];
  }
  return expected;
}

struct CrossEntropyRun {
  Doubles probabilities, row_losses, loss;
};

CrossEntropyRun run_cross_entropy(Doubles logits, std::vector<std::int64_t> labels,
                                  MatrixShape shape) {
  CrossEntropyRun run{Doubles(shape.count(), kNan), Doubles(shape.rows, kNan), Doubles(1, kNan)};
  ddp::cpu::softmax_cross_entropy_forward(
      buffer_of(logits), buffer_of(labels),
      {buffer_of(run.probabilities), buffer_of(run.row_losses), buffer_of(run.loss)}, shape, 0);
  return run;
}

}  // namespace

TEST_CASE("bias_add adds the bias to every row", "[kernels]") {
  const auto shape = GENERATE(MatrixShape{3, 5}, MatrixShape{0, 5}, MatrixShape{7, 1},
                              MatrixShape{64, 1}, MatrixShape{201, 1}, MatrixShape{50, 10});
  const Doubles before = uniform(shape.count(), 1);
  Doubles y = before;
  Doubles bias = uniform(shape.columns, 2);
  ddp::cpu::bias_add(buffer_of(y), buffer_of(bias), shape);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == before[i] + bias[i % shape.columns]);
}

TEST_CASE("bias_grad sums columns, and the sum of no rows is 0", "[kernels]") {
  const auto shape = GENERATE(MatrixShape{3, 5}, MatrixShape{0, 5}, MatrixShape{31, 1},
                              MatrixShape{64, 1}, MatrixShape{201, 1}, MatrixShape{50, 10});
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  Doubles grad_y = uniform(shape.count(), 1);
  Doubles sums(shape.columns, 0.0);
  for (std::size_t i = 0; i < grad_y.size(); ++i) sums[i % shape.columns] += grad_y[i];
  Doubles grad_bias = initial_gradient(shape.columns, mode);
  ddp::cpu::bias_grad(buffer_of(grad_y), {buffer_of(grad_bias), mode}, shape);
  check_close(grad_bias, expected_gradient(sums, mode));
}

TEST_CASE("bias_grad rounds a sum in float32 once, however many rows it has", "[kernels]") {
  constexpr MatrixShape kShape{1001, 3};
  constexpr float kLarge = 1U << 24U;  // in float32, adding 1 to it changes nothing
  std::vector<float> grad_y(kShape.count(), 1), grad_bias(kShape.columns);
  std::fill_n(grad_y.begin(), kShape.columns, kLarge);
  ddp::cpu::bias_grad(buffer_of(grad_y), {buffer_of(grad_bias)}, kShape);
  CHECK(grad_bias == std::vector<float>(kShape.columns, kLarge + 1000));
}

TEST_CASE("channel_bias_grad loses no digits in float32, however large batch and planes are",
          "[kernels]") {
  constexpr ddp::ChannelShape kManySamples{9001, 2, 1};
  constexpr float kLarge = 1U << 24U;  // in float32, adding 1 to it changes nothing
  std::vector<float> ones(kManySamples.count(), 1), grad_bias(2);
  ones.front() = kLarge;
  ddp::cpu::channel_bias_grad(buffer_of(ones), {buffer_of(grad_bias)}, kManySamples);
  CHECK(grad_bias == std::vector<float>{kLarge + 9000, 9001});

  constexpr ddp::ChannelShape kLargePlanes{1, 2, 2'000'003};
  std::vector<float> tenths(kLargePlanes.count(), 0.1F);
  ddp::cpu::channel_bias_grad(buffer_of(tenths), {buffer_of(grad_bias)}, kLargePlanes);
  const double expected = static_cast<double>(0.1F) * 2'000'003;
  for (const float sum : grad_bias) CHECK(std::abs(sum / expected - 1) < 5e-7);
}

TEST_CASE("relu cuts at 0, even in place, and keeps NaN", "[kernels]") {
  Doubles x{-1.5, -0.0, 0.0, 2.5, kNan};
  Doubles y(x.size(), kNan);
  ddp::cpu::unary_forward(buffer_of(x), buffer_of(y), kRelu);
  CHECK(Doubles(y.begin(), y.end() - 1) == Doubles{0, 0, 0, 2.5});
  CHECK(std::isnan(y.back()));
  ddp::cpu::unary_forward(buffer_of(x), buffer_of(x), kRelu);
  CHECK(Doubles(x.begin(), x.end() - 1) == Doubles{0, 0, 0, 2.5});
}

TEST_CASE("relu lets the gradient through where the output is positive", "[kernels]") {
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  const std::size_t count = GENERATE(0U, 1U, 37U);
  Doubles y = uniform(count, 1);
  ddp::cpu::unary_forward(buffer_of(y), buffer_of(y), kRelu);
  Doubles grad_y = uniform(count, 2);
  Doubles expected(count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = y[i] > 0 ? grad_y[i] : 0;
  Doubles grad_x = initial_gradient(count, mode);
  ddp::cpu::unary_backward(buffer_of(y), buffer_of(grad_y), {buffer_of(grad_x), mode}, kRelu);
  check_close(grad_x, expected_gradient(expected, mode));
}

TEST_CASE("softmax_cross_entropy_forward equals the formula", "[kernels]") {
  const auto shape = GENERATE(MatrixShape{1, 1}, MatrixShape{5, 3}, MatrixShape{64, 10});
  const Doubles logits = uniform(shape.count(), 1);
  const auto labels = labels_below(static_cast<std::int64_t>(shape.columns), shape.rows, 2);
  const CrossEntropyRun run = run_cross_entropy(logits, labels, shape);
  Doubles probabilities, row_losses;
  double total = 0;
  for (std::size_t r = 0; r < shape.rows; ++r) {
    const double* row = &logits[r * shape.columns];
    double sum = 0;
    for (std::size_t c = 0; c < shape.columns; ++c) sum += std::exp(row[c]);
    for (std::size_t c = 0; c < shape.columns; ++c) probabilities.push_back(std::exp(row[c]) / sum);
    row_losses.push_back(std::log(sum) - row[labels[r]]);
    total += row_losses.back();
  }
  check_close(run.probabilities, probabilities);
  check_close(run.row_losses, row_losses);
  check_close(run.loss, {total / static_cast<double>(shape.rows)});
}

TEST_CASE("cross-entropy stays finite for huge logits", "[kernels]") {
  const CrossEntropyRun run = run_cross_entropy({1e4, -1e4, 0, 1e4}, {1, 1}, {2, 2});
  CHECK(run.row_losses == Doubles{2e4, 0});
  CHECK(run.probabilities == Doubles{1, 0, 0, 1});
}

TEST_CASE("an empty batch has loss 0", "[kernels]") {
  CHECK(run_cross_entropy({}, {}, {0, 10}).loss == Doubles{0});
}

TEST_CASE("a label outside its range is named with its row", "[kernels]") {
  const auto label = GENERATE(as<std::int64_t>(), 3, -1);
  CHECK(error_of([&] {
          run_cross_entropy(Doubles(6), {0, label}, {2, 3});
        }) == "[kernels] softmax_cross_entropy_forward: the label of row 1 is " +
                  std::to_string(label) + ", expected 0 to 2");
}

TEST_CASE("a label smoothing that is no share is refused", "[kernels]") {
  const double smoothing = GENERATE(5.0, -0.5, kNan);
  Doubles logits(6), probabilities(6), row_losses(2), loss(1);
  std::vector<std::int64_t> labels(2);
  const std::string problem =
      ": the label smoothing is " + std::to_string(smoothing) + ", expected 0 to 1";
  CHECK(error_of([&] {
          ddp::cpu::softmax_cross_entropy_forward(
              buffer_of(logits), buffer_of(labels),
              {buffer_of(probabilities), buffer_of(row_losses), buffer_of(loss)}, {2, 3},
              smoothing);
        }) == "[kernels] softmax_cross_entropy_forward" + problem);
  CHECK(error_of([&] {
          ddp::cpu::softmax_cross_entropy_backward(buffer_of(probabilities), buffer_of(labels),
                                                   buffer_of(loss), {buffer_of(logits)}, {2, 3},
                                                   smoothing);
        }) == "[kernels] softmax_cross_entropy_backward" + problem);
}

TEST_CASE("softmax_cross_entropy_backward equals (p - one_hot) * grad / rows", "[kernels]") {
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  const auto shape = GENERATE(MatrixShape{0, 3}, MatrixShape{5, 3}, MatrixShape{7, 10});
  Doubles probabilities = uniform(shape.count(), 1);
  auto labels = labels_below(static_cast<std::int64_t>(shape.columns), shape.rows, 2);
  Doubles grad_loss{0.75};
  Doubles expected(shape.count());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool hit = static_cast<std::int64_t>(i % shape.columns) == labels[i / shape.columns];
    expected[i] = (probabilities[i] - (hit ? 1 : 0)) * 0.75 / static_cast<double>(shape.rows);
  }
  Doubles grad_logits = initial_gradient(shape.count(), mode);
  ddp::cpu::softmax_cross_entropy_backward(buffer_of(probabilities), buffer_of(labels),
                                           buffer_of(grad_loss), {buffer_of(grad_logits), mode},
                                           shape, 0);
  check_close(grad_logits, expected_gradient(expected, mode));
}

TEST_CASE("count_correct compares the first largest logit with the label", "[kernels]") {
  std::vector<float> logits{0, 1, 2, 5, 5, 1, 3, 2, 1, -1, -3, -2};
  std::vector<std::int64_t> labels{2, 0, 1, 0};
  std::vector<std::int64_t> count{-7};
  ddp::cpu::count_correct(buffer_of(logits), buffer_of(labels), buffer_of(count), {4, 3}, 1);
  CHECK(count[0] == 3);
  std::vector<float> none;
  std::vector<std::int64_t> no_labels;
  ddp::cpu::count_correct(buffer_of(none), buffer_of(no_labels), buffer_of(count), {0, 3}, 1);
  CHECK(count[0] == 0);
}

TEST_CASE("count_correct counts labels among the k largest logits", "[kernels]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> logits{9,   7, 8, 6,   // the label's is the third
                            5,   5, 5, 5,   // the fourth, since all are equal
                            1,   2, 3, 4,   // the first
                            0,   0, 0, 0,   // no such class
                            nan, 1, 1, 1};  // wrong
  std::vector<std::int64_t> labels{1, 3, 3, 4, 0};
  const auto count_of = [&](std::size_t k) {
    std::vector<std::int64_t> count{-7};
    ddp::cpu::count_correct(buffer_of(logits), buffer_of(labels), buffer_of(count), {5, 4}, k);
    return count[0];
  };
  CHECK(count_of(1) == 1);
  CHECK(count_of(2) == 1);
  CHECK(count_of(3) == 2);
  CHECK(count_of(4) == 3);
  CHECK(count_of(5) == 3);
}

TEST_CASE("sgd_step follows PyTorch's formula over three steps", "[kernels]") {
  const double momentum = GENERATE(0.0, 0.9);
  const double scale = 0.25;
  const double* grad_scale = GENERATE_REF(static_cast<const double*>(nullptr), &scale);
  const double used_scale = grad_scale == nullptr ? 1 : scale;
  const std::size_t count = GENERATE(0U, 1U, 37U);
  Doubles value = uniform(count, 1), expected = value;
  Doubles velocity(momentum == 0 ? 0 : count), reference(count);
  for (unsigned step = 0; step < 3; ++step) {
    Doubles grad = uniform(count, 10 + step);
    const ddp::SgdTensor tensor{buffer_of(value), buffer_of(grad), buffer_of(velocity)};
    ddp::cpu::sgd_step({&tensor, 1}, {0.1, momentum, 0.01}, grad_scale);
    for (std::size_t i = 0; i < count; ++i) {
      const double g = grad[i] * used_scale + 0.01 * expected[i];
      reference[i] = step == 0 ? g : momentum * reference[i] + g;
      expected[i] -= 0.1 * reference[i];
    }
  }
  check_close(value, expected);
}

// An x86-64 processor need not have an instruction that rounds a product and a sum once; an ARM
// has.
TEST_CASE("parameters are rounded alike on all processors", "[kernels]") {
  Doubles grad = uniform(37, 1), value(grad.size()), none;
  std::ranges::transform(grad, value.begin(), [](double g) { return 0.1 * g; });
  const ddp::SgdTensor tensor{buffer_of(value), buffer_of(grad), buffer_of(none)};
  ddp::cpu::sgd_step({&tensor, 1}, {.learning_rate = 0.1}, nullptr);
  CHECK(value == Doubles(grad.size()));  // the rounded product, less itself
}

TEST_CASE("kernels refuse operands of wrong sizes or dtypes", "[kernels]") {
  Doubles three(3), four(4);
  CHECK(error_of([&] { ddp::cpu::unary_forward(buffer_of(three), buffer_of(four), kRelu); }) ==
        "[kernels] unary_forward: y is float64[4] on cpu, expected float64[3] on cpu");
  CHECK(error_of([&] {
          const ddp::SgdTensor tensor{buffer_of(three), buffer_of(three), {}};
          ddp::cpu::sgd_step({&tensor, 1}, {.momentum = 0.9}, nullptr);
        }) ==
        "[kernels] sgd_step: momentum_buffer is float32[0] on cpu, expected float64[3] on cpu");
}

TEST_CASE("kernels refuse operands without memory", "[kernels]") {
  Doubles four(4);
  const ddp::Buffer good = buffer_of(four), null{nullptr, 4, ddp::DType::kFloat64};
  const auto expected = [](const std::string& kernel_and_operand) {
    return "[kernels] " + kernel_and_operand +
           " is float64[4] on cpu, but its address is a null pointer";
  };
  CHECK(error_of([&] { ddp::cpu::unary_forward(good, null, kRelu); }) ==
        expected("unary_forward: y"));
  CHECK(error_of([&] { ddp::cpu::unary_forward(null, good, kRelu); }) ==
        expected("unary_forward: x"));
  CHECK(error_of([&] { ddp::cpu::unary_backward(null, good, {good}, kRelu); }) ==
        expected("unary_backward: the kept tensor"));
  CHECK(error_of([&] { ddp::cpu::binary(null, good, {good}, {}); }) == expected("binary: a"));
  CHECK(error_of([&] { ddp::cpu::variance_to_invstd(null, 0, good); }) ==
        expected("variance_to_invstd: variance"));
  const ddp::Buffer none{nullptr, 0, ddp::DType::kFloat64};
  ddp::cpu::unary_forward(none, none, kRelu);
}

TEST_CASE("kernels refuse shapes whose elements cannot be counted", "[kernels]") {
  constexpr std::size_t kMany = std::size_t{1} << 32U;
  constexpr std::size_t kMost = std::size_t{1} << 60U;
  const ddp::Buffer none(nullptr, 0, ddp::DType::kFloat32);
  const auto refuses = [](const auto& call, const std::string& shape) {
    CHECK(error_of(call) ==
          "[kernels] a shape of " + shape + " has more elements than there can be bytes of memory");
  };
  const std::string squared = "4294967296 x 4294967296";
  refuses(
      [&] {
        ddp::cpu::softmax_forward(none, none, {kMany, kMany}, ddp::SoftmaxMask::kNone);
      },
      squared);
  refuses([&] { ddp::cpu::gemm(none, none, none, {kMany, kMany, 0}, {}); }, squared);
  refuses([&] { ddp::cpu::gemm_batched(none, none, none, {kMany, kMany, 0}, {}); }, squared);
  refuses(
      [&] {
        ddp::cpu::transpose(none, {none}, {kMany, kMany, 1, 1, 1});
      },
      squared + " x 1 x 1 x 1");
  refuses(
      [&] {
        ddp::cpu::avg_pool2d_forward(none, none, ddp::Pool2dShape{kMost, {4, 4}, {1, 1}, {1, 1}});
      },
      "1152921504606846976 x 16");
  refuses(
      [&] {
        ddp::cpu::channel_moments(none, none, {kMost, 16, 1});
      },
      "1152921504606846976 x 16 x 1");
  const auto backend = ddp::cpu::make_conv2d();
  const ddp::Conv2dShape convolution{kMost, 1, 1, {4, 4}, {1, 1}};
  refuses([&] { ddp::cpu::conv2d_forward(none, none, none, none, convolution, *backend); },
          "1152921504606846976 x 1 x 16");
  CHECK(MatrixShape{kMany, 0}.count() == 0);
  CHECK(ddp::ChannelShape{kMany, kMany, 0}.count() == 0);
}

TEST_CASE("columns from beyond the end are refused, however many there are", "[kernels]") {
  Doubles whole(16), part(4);
  constexpr std::size_t kLast = std::numeric_limits<std::size_t>::max();
  CHECK(error_of([&] {
          ddp::cpu::take_columns(buffer_of(whole), {buffer_of(part)}, {{4, 4}, kLast, 1});
        }) ==
        "[kernels] take_columns: 1 columns from column 18446744073709551615 on are not "
        "within 4");
  const ddp::Buffer none{nullptr, 0, ddp::DType::kFloat64};
  CHECK_THAT(error_of([&] {
               ddp::cpu::take_columns(buffer_of(whole), {none}, {{4, 4}, 1, kLast / 4 + 1});
             }),
             Catch::Contains("4611686018427387904 columns from column 1 on are not within 4"));
}

TEST_CASE("a norm is not negative, even if the gradients' factor is", "[kernels]") {
  Doubles gradient = {3, 4};
  const ddp::Buffer gradients[] = {buffer_of(gradient)};
  Doubles norm(1), scale(1), partials(ddp::grad_norm_partials(gradients));
  const double factor = -2;
  ddp::cpu::clip_grad_norm(gradients, 5, &factor,
                           {buffer_of(norm), buffer_of(scale), buffer_of(partials)});
  CHECK(norm[0] == 10);
  CHECK(scale[0] == Approx(-1));
}

TEST_CASE("a batch of one element has a finite variance", "[kernels]") {
  Doubles moments = {7, 0, 1};  // mean, sum of squared distances, count
  Doubles mean = {1}, variance = {1};
  std::vector<std::int64_t> batches = {0};
  ddp::cpu::track_statistics(buffer_of(moments), 0.5,
                             {buffer_of(mean), buffer_of(variance), buffer_of(batches)});
  CHECK(mean[0] == 4);
  CHECK(variance[0] == 0.5);
  CHECK(batches[0] == 1);
}
