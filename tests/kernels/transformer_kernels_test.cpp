// SPDX-License-Identifier: MIT
//
// Compares the kernels of transformers with plain loops in float64.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/kernels/embedding.h"
#include "ddp/kernels/layer_norm.h"
#include "ddp/kernels/softmax.h"
#include "ddp/kernels/transpose.h"
#include "support/kernel_values.h"
#include "support/run_ranks.h"
#include "support/write_modes.h"

namespace {

using Catch::Matchers::Contains;
using ddp::buffer_of;
using ddp::MatrixShape;
using ddp::SoftmaxMask;
using ddp::TransposeShape;
using ddp::WriteMode;
using ddp::test::any_mode;
using ddp::test::check_close;
using ddp::test::error_of;
using ddp::test::expected_gradient;
using ddp::test::initial_gradient;
using ddp::test::poison;
using ddp::test::uniform;
using ddp::test::Values;
using Doubles = std::vector<double>;
using Indices = std::vector<std::int64_t>;

template <class T>
Doubles widened(const Values<T>& values) {
  return {values.begin(), values.end()};
}

struct RowStatistics {
  double mean = 0;
  double rstd = 0;
};

template <class T>
RowStatistics statistics_of(const T* row, std::size_t columns, double eps) {
  const auto n = static_cast<double>(columns);
  double mean = 0, variance = 0;
  for (std::size_t c = 0; c < columns; ++c) mean += static_cast<double>(row[c]) / n;
  for (std::size_t c = 0; c < columns; ++c) {
    variance += std::pow(static_cast<double>(row[c]) - mean, 2) / n;
  }
  return {mean, 1 / std::sqrt(variance + eps)};
}

// A layer norm of random elements, whose weights are far from 1.
template <class T>
struct LayerNormRun {
  explicit LayerNormRun(MatrixShape of)
      : shape(of),
        x(uniform<T>(shape.count(), 1)),
        weight(uniform<T>(shape.columns, 2)),
        bias(uniform<T>(shape.columns, 3)),
        grad_y(uniform<T>(shape.count(), 4)),
        y(poison<T>(shape.count())),
        mean(poison<T>(shape.rows)),
        rstd(poison<T>(shape.rows)) {
    for (T& element : x) element += T{2};
    ddp::cpu::layer_norm_forward(buffer_of(x), buffer_of(weight), buffer_of(bias), kEps,
                                 {buffer_of(y), buffer_of(mean), buffer_of(rstd)}, shape);
  }

  [[nodiscard]] RowStatistics statistics(std::size_t r) const {
    return statistics_of(&x[r * shape.columns], shape.columns, kEps);
  }
  [[nodiscard]] double normalised(std::size_t i) const {
    const auto [of_row, deviation] = statistics(i / shape.columns);
    return (static_cast<double>(x[i]) - of_row) * deviation;
  }
  [[nodiscard]] ddp::LayerNormOperands operands() {
    return {buffer_of(x), buffer_of(mean), buffer_of(rstd)};
  }

  static constexpr double kEps = 1e-3;
  MatrixShape shape;
  Values<T> x, weight, bias, grad_y, y, mean, rstd;
};

MatrixShape any_matrix() {
  return GENERATE(MatrixShape{1, 1}, MatrixShape{0, 5}, MatrixShape{3, 8}, MatrixShape{7, 13},
                  MatrixShape{5, 67}, MatrixShape{64, 3});
}

}  // namespace

TEMPLATE_TEST_CASE("layer_norm_forward equals the formula", "[kernels]", float, double) {
  const LayerNormRun<TestType> run(any_matrix());
  Doubles y, means, deviations;
  for (std::size_t i = 0; i < run.x.size(); ++i) {
    const std::size_t c = i % run.shape.columns;
    y.push_back(run.normalised(i) * static_cast<double>(run.weight[c]) +
                static_cast<double>(run.bias[c]));
  }
  for (std::size_t r = 0; r < run.shape.rows; ++r) {
    means.push_back(run.statistics(r).mean);
    deviations.push_back(run.statistics(r).rstd);
  }
  check_close(run.y, y);
  check_close(run.mean, means);
  check_close(run.rstd, deviations);
}

TEMPLATE_TEST_CASE("the gradients of layer_norm equal the formulas", "[kernels]", float, double) {
  using T = TestType;
  LayerNormRun<T> run(any_matrix());
  const auto [rows, columns] = run.shape;
  const WriteMode mode = any_mode();
  Doubles grad_x, grad_weight(columns, 0.0);
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0, product = 0;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t i = r * columns + c;
      const double incoming = static_cast<double>(run.grad_y[i]);
      sum += incoming * static_cast<double>(run.weight[c]);
      product += incoming * static_cast<double>(run.weight[c]) * run.normalised(i);
      grad_weight[c] += incoming * run.normalised(i);
    }
    const auto n = static_cast<double>(columns);
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t i = r * columns + c;
      const double gradient =
          static_cast<double>(run.grad_y[i]) * static_cast<double>(run.weight[c]);
      grad_x.push_back(run.statistics(r).rstd *
                       (gradient - sum / n - run.normalised(i) * product / n));
    }
  }
  Values<T> of_x = initial_gradient<T>(rows * columns, mode);
  ddp::cpu::layer_norm_grad_input(run.operands(), buffer_of(run.weight), buffer_of(run.grad_y),
                                  {buffer_of(of_x), mode}, run.shape);
  check_close(of_x, expected_gradient<T>(grad_x, mode));
  Values<T> of_weight = initial_gradient<T>(columns, mode);
  ddp::cpu::layer_norm_grad_weight(run.operands(), buffer_of(run.grad_y),
                                   {buffer_of(of_weight), mode}, run.shape);
  check_close(of_weight, expected_gradient<T>(grad_weight, mode));
}

TEST_CASE("layer_norm of a row far from 0 is as exact as one at 0", "[kernels]") {
  Doubles x = {1e8, 1e8 + 1, 1e8 + 2, 1e8 + 3}, one(4, 1.0), zero(4, 0.0), y(4), mean(1), rstd(1);
  ddp::cpu::layer_norm_forward(buffer_of(x), buffer_of(one), buffer_of(zero), 0,
                               {buffer_of(y), buffer_of(mean), buffer_of(rstd)}, {1, 4});
  CHECK(mean == Doubles{1e8 + 1.5});
  check_close(rstd, {1 / std::sqrt(1.25)});
}

TEMPLATE_TEST_CASE("softmax equals the formula, and gives 0 behind a causal mask", "[kernels]",
                   float, double) {
  using T = TestType;
  const auto mask = GENERATE(SoftmaxMask::kNone, SoftmaxMask::kCausal);
  const auto shape = GENERATE(MatrixShape{1, 1}, MatrixShape{0, 5}, MatrixShape{3, 0},
                              MatrixShape{6, 3}, MatrixShape{26, 13}, MatrixShape{67, 67});
  const auto mode = any_mode();
  Values<T> x = uniform<T>(shape.count(), 1), y = poison<T>(shape.count());
  Doubles expected(shape.count(), 0.0);
  for (std::size_t r = 0; r < shape.rows && shape.columns > 0; ++r) {
    const std::size_t seen = mask == SoftmaxMask::kCausal ? r % shape.columns + 1 : shape.columns;
    const std::size_t first = r * shape.columns;
    double sum = 0;
    for (std::size_t c = 0; c < seen; ++c) sum += std::exp(static_cast<double>(x[first + c]));
    for (std::size_t c = 0; c < seen; ++c) {
      expected[first + c] = std::exp(static_cast<double>(x[first + c])) / sum;
    }
  }
  ddp::cpu::softmax_forward(buffer_of(x), buffer_of(y), shape, mask);
  check_close(y, expected);

  Values<T> grad_y = uniform<T>(shape.count(), 2), grad_x = initial_gradient<T>(x.size(), mode);
  Doubles gradient;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t first = i / shape.columns * shape.columns;
    double sum = 0;
    for (std::size_t c = 0; c < shape.columns; ++c) {
      sum += expected[first + c] * static_cast<double>(grad_y[first + c]);
    }
    gradient.push_back(expected[i] * (static_cast<double>(grad_y[i]) - sum));
  }
  ddp::cpu::softmax_backward(buffer_of(y), buffer_of(grad_y), {buffer_of(grad_x), mode}, shape);
  check_close(grad_x, expected_gradient<T>(gradient, mode));
}

TEST_CASE("softmax stays finite for huge elements, and never reads what is masked", "[kernels]") {
  Doubles x = {1e4, -1e4, 1e4, 1e4}, y(4);
  ddp::cpu::softmax_forward(buffer_of(x), buffer_of(y), {2, 2}, SoftmaxMask::kNone);
  CHECK(y == Doubles{1, 0, 0.5, 0.5});
  x[1] = std::nan("");
  ddp::cpu::softmax_forward(buffer_of(x), buffer_of(y), {2, 2}, SoftmaxMask::kCausal);
  CHECK(y == Doubles{1, 0, 0.5, 0.5});
  CHECK_THAT(error_of([&] {
               ddp::cpu::softmax_forward(buffer_of(x), buffer_of(y), {1, 4}, SoftmaxMask::kCausal);
             }),
             Contains("a causal mask for 1 x 4 elements, which are no square matrices"));
}

TEMPLATE_TEST_CASE("log_softmax equals the formula, also where softmax is 0", "[kernels]", float,
                   double) {
  using T = TestType;
  const auto shape =
      GENERATE(MatrixShape{1, 1}, MatrixShape{0, 5}, MatrixShape{3, 0}, MatrixShape{67, 67});
  const double scale = GENERATE(1.0, 1e4);
  const auto mode = any_mode();
  Values<T> x = uniform<T>(shape.count(), 1), y = poison<T>(shape.count());
  for (T& element : x) element *= static_cast<T>(scale);
  Values<T> grad_y = uniform<T>(shape.count(), 2), grad_x = initial_gradient<T>(x.size(), mode);
  Doubles expected(x.size()), gradient(x.size());
  for (std::size_t first = 0; first < x.size(); first += shape.columns) {
    const auto row = [&](const Values<T>& values) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
      return Doubles(begin, begin + static_cast<std::ptrdiff_t>(shape.columns));
    };
    const Doubles elements = row(x), gradients = row(grad_y);
    const double maximum = *std::ranges::max_element(elements);
    double sum = 0, sum_of_gradients = 0;
    for (const double element : elements) sum += std::exp(element - maximum);
    for (const double each : gradients) sum_of_gradients += each;
    for (std::size_t c = 0; c < shape.columns; ++c) {
      expected[first + c] = elements[c] - maximum - std::log(sum);
      gradient[first + c] = gradients[c] - std::exp(expected[first + c]) * sum_of_gradients;
    }
  }
  ddp::cpu::log_softmax_forward(buffer_of(x), buffer_of(y), shape);
  check_close(y, expected);
  ddp::cpu::log_softmax_backward(buffer_of(y), buffer_of(grad_y), {buffer_of(grad_x), mode}, shape);
  check_close(grad_x, expected_gradient<T>(gradient, mode));
}

TEMPLATE_TEST_CASE("embedding copies rows, and sums the gradients of each in order", "[kernels]",
                   float, double) {
  using T = TestType;
  const auto mode = any_mode();
  const auto table_shape = GENERATE(MatrixShape{1, 1}, MatrixShape{5, 3}, MatrixShape{4, 0});
  const std::size_t positions = GENERATE(0U, 1U, 37U);
  Indices indices(positions);
  for (std::size_t p = 0; p < positions; ++p) {
    // The last row has no position.
    indices[p] = static_cast<std::int64_t>(p * p % std::max<std::size_t>(1, table_shape.rows - 1));
  }
  const auto columns = table_shape.columns;
  Values<T> table = uniform<T>(table_shape.count(), 1), y = poison<T>(positions * columns);
  Values<T> grad_y = uniform<T>(y.size(), 2), grad = initial_gradient<T>(table.size(), mode);
  Doubles rows, sums(table.size(), 0.0);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto at = static_cast<std::size_t>(indices[i / columns]) * columns + i % columns;
    rows.push_back(static_cast<double>(table[at]));
    sums[at] += static_cast<double>(grad_y[i]);
  }
  ddp::cpu::embedding_forward(buffer_of(table), buffer_of(indices), buffer_of(y), table_shape);
  CHECK(widened(y) == rows);
  ddp::cpu::embedding_backward(buffer_of(grad_y), buffer_of(indices), {buffer_of(grad), mode},
                               table_shape);
  check_close(grad, expected_gradient<T>(sums, mode));
}

TEST_CASE("an index outside the table is named with its position", "[kernels]") {
  const auto index = GENERATE(as<std::int64_t>(), 3, -1);
  Indices indices = {0, 2, index};
  Doubles table(6), y(6);
  const std::string expected =
      "the index at position 2 is " + std::to_string(index) + ", expected 0 to 2";
  CHECK_THAT(
      error_of([&] {
        ddp::cpu::embedding_forward(buffer_of(table), buffer_of(indices), buffer_of(y), {3, 2});
      }),
      Contains("[kernels] embedding_forward: " + expected));
  CHECK_THAT(
      error_of([&] {
        ddp::cpu::embedding_backward(buffer_of(y), buffer_of(indices), {buffer_of(table)}, {3, 2});
      }),
      Contains("[kernels] embedding_backward: " + expected));
  std::vector<std::int32_t> narrow(3);
  CHECK_THAT(
      error_of([&] {
        ddp::cpu::embedding_forward(buffer_of(table), buffer_of(narrow), buffer_of(y), {3, 2});
      }),
      Contains("indices is int32[3] on cpu, expected int64[3] on cpu"));
}

TEMPLATE_TEST_CASE("transpose exchanges two dimensions, and its transposed shape undoes it",
                   "[kernels]", float, double) {
  using T = TestType;
  const auto mode = any_mode();
  const auto shape = GENERATE(TransposeShape{}, TransposeShape{2, 3, 1, 4, 5},
                              TransposeShape{1, 7, 1, 5, 1}, TransposeShape{3, 2, 4, 5, 1},
                              TransposeShape{2, 0, 1, 4, 5}, TransposeShape{2, 3, 2, 4, 3},
                              TransposeShape{2, 37, 3, 18, 1}, TransposeShape{1, 33, 2, 40, 3});
  Values<T> x = uniform<T>(shape.count(), 1), y = initial_gradient<T>(x.size(), mode);
  Doubles expected(x.size());
  std::size_t i = 0;
  for (std::size_t o = 0; o < shape.outer; ++o) {
    for (std::size_t f = 0; f < shape.first; ++f) {
      for (std::size_t m = 0; m < shape.middle; ++m) {
        for (std::size_t s = 0; s < shape.second; ++s) {
          for (std::size_t n = 0; n < shape.inner; ++n) {
            const std::size_t row = ((o * shape.second + s) * shape.middle + m) * shape.first + f;
            expected[row * shape.inner + n] = static_cast<double>(x[i++]);
          }
        }
      }
    }
  }
  ddp::cpu::transpose(buffer_of(x), {buffer_of(y), mode}, shape);
  check_close(y, expected_gradient<T>(expected, mode));
  Values<T> moved = poison<T>(x.size()), back = poison<T>(x.size());
  ddp::cpu::transpose(buffer_of(x), {buffer_of(moved)}, shape);
  ddp::cpu::transpose(buffer_of(moved), {buffer_of(back)}, shape.transposed());
  CHECK(back == x);
}
