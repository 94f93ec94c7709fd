// SPDX-License-Identifier: MIT
//
// Functions of float32 that run in vectors: how exact they are, and that nothing depends on an
// element's place.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/elementary.h"
#include "ddp/kernels/dropout.h"
#include "ddp/kernels/pointwise_loss.h"
#include "ddp/kernels/unary.h"
#include "support/kernel_values.h"

namespace {

using ddp::buffer_of;
using ddp::UnaryFunction;
using ddp::UnaryKind;
using ddp::WriteMode;
using Floats = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Some 90,000 numbers of all magnitudes, subnormal ones too.
Floats all_magnitudes(float low, float high) {
  Floats values;
  constexpr std::uint64_t kStep = 47'777;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += kStep) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (value >= low && value <= high) values.push_back(value);
  }
  return values;
}

// The 60,000 numbers on each side of 1.
Floats close_to_one() {
  Floats values;
  constexpr std::uint32_t kOne = std::bit_cast<std::uint32_t>(1.0F);
  for (std::uint32_t bits = kOne - 60'000; bits != kOne + 60'000; ++bits) {
    if (bits != kOne) values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

// The largest distance from the exact value, in units in the last place.
template <class Function, class Exact>
double worst_distance(const Floats& arguments, const Function& function, const Exact& exact) {
  double worst = 0;
  for (const float x : arguments) {
    const double expected = exact(static_cast<double>(x));
    const int exponent = std::max(std::ilogb(expected), -126);
    const double distance = std::abs(static_cast<double>(function(x)) - expected);
    worst = std::max(worst, std::ldexp(distance, 23 - exponent));
  }
  return worst;
}

double exact_normal_cdf(double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }

TEST_CASE("elementary functions are exact to a few units in the last place", "[kernels]") {
  const auto exp = [](float x) { return ddp::detail::exp(x); };
  const auto tanh = [](float x) { return ddp::detail::tanh(x); };
  const auto log = [](float x) { return ddp::detail::log(x); };
  const auto log1p = [](float e) { return ddp::detail::log1p_of_fraction(e); };
  const auto normal_cdf = [](float x) { return ddp::detail::normal_cdf(x); };
  const auto exact = [](double (*function)(double)) { return function; };
  CHECK(worst_distance(all_magnitudes(-110, 88.7F), exp, exact(std::exp)) < 1.5);
  CHECK(worst_distance(all_magnitudes(-100, 100), tanh, exact(std::tanh)) < 3);
  CHECK(worst_distance(all_magnitudes(1e-45F, 3e38F), log, exact(std::log)) < 1.5);
  CHECK(worst_distance(close_to_one(), log, exact(std::log)) < 1.5);
  CHECK(worst_distance(all_magnitudes(0, 1), log1p, exact(std::log1p)) < 3);
  CHECK(worst_distance(all_magnitudes(-1, 100), normal_cdf, exact_normal_cdf) < 8);
  // The tail's relative error grows with x^2 / 2, whose rounding is that of the exponent.
  CHECK(worst_distance(all_magnitudes(-13, -1), normal_cdf, exact_normal_cdf) < 100);
}

TEST_CASE("elementary functions of numbers that are not finite", "[kernels]") {
  CHECK(ddp::detail::exp(kInfinity) == kInfinity);
  CHECK(ddp::detail::exp(88.8F) == kInfinity);
  CHECK(ddp::detail::exp(-kInfinity) == 0);
  CHECK(ddp::detail::tanh(kInfinity) == 1);
  CHECK(ddp::detail::tanh(-kInfinity) == -1);
  CHECK(std::signbit(ddp::detail::tanh(-0.0F)));
  CHECK(ddp::detail::log(kInfinity) == kInfinity);
  CHECK(ddp::detail::log(0.0F) == -kInfinity);
  CHECK(ddp::detail::log(-0.0F) == -kInfinity);
  CHECK(ddp::detail::log(1.0F) == 0);
  CHECK(std::isnan(ddp::detail::log(-1.0F)));
  CHECK(std::isnan(ddp::detail::log(-kInfinity)));
  CHECK(ddp::detail::normal_cdf(kInfinity) == 1);
  CHECK(ddp::detail::normal_cdf(-kInfinity) == 0);
  for (const float nan : {kNan, -kNan}) {
    CHECK(std::isnan(ddp::detail::exp(nan)));
    CHECK(std::isnan(ddp::detail::tanh(nan)));
    CHECK(std::isnan(ddp::detail::log(nan)));
    CHECK(std::isnan(ddp::detail::log1p_of_fraction(nan)));
    CHECK(std::isnan(ddp::detail::normal_cdf(nan)));
  }
}

UnaryFunction any_function() {
  return GENERATE(UnaryFunction{UnaryKind::kAbs}, UnaryFunction{UnaryKind::kAffine, -2, 0.5},
                  UnaryFunction{UnaryKind::kClamp, -1, 0.75}, UnaryFunction{UnaryKind::kExp},
                  UnaryFunction{UnaryKind::kGelu}, UnaryFunction{UnaryKind::kGeluTanh},
                  UnaryFunction{UnaryKind::kLeakyRelu, 0.1}, UnaryFunction{UnaryKind::kLog},
                  UnaryFunction{UnaryKind::kRelu}, UnaryFunction{UnaryKind::kSigmoid},
                  UnaryFunction{UnaryKind::kSilu}, UnaryFunction{UnaryKind::kSoftplus},
                  UnaryFunction{UnaryKind::kSqrt}, UnaryFunction{UnaryKind::kSquare},
                  UnaryFunction{UnaryKind::kTanh});
}

// Between 0 and 5 where the function is defined above 0 only, otherwise between -5 and 5.
Floats arguments_of(const UnaryFunction& f, std::size_t count) {
  Floats x = ddp::test::uniform<float>(count, 3);
  const bool is_above_0 = f.kind == UnaryKind::kLog || f.kind == UnaryKind::kSqrt;
  for (float& value : x) value = 5 * (is_above_0 ? std::abs(value) : value);
  return x;
}

template <class T>
std::vector<T> forward(std::vector<T> x, const UnaryFunction& f) {
  ddp::cpu::unary_forward(buffer_of(x), buffer_of(x), f);
  return x;
}

template <class T>
std::vector<T> backward(std::vector<T> x, std::vector<T> grad_y, const UnaryFunction& f) {
  std::vector<T> kept = is_slope_of_value(f.kind) ? forward(x, f) : x;
  std::vector<T> grad_x(x.size());
  ddp::cpu::unary_backward(buffer_of(kept), buffer_of(grad_y), {buffer_of(grad_x)}, f);
  return grad_x;
}

std::vector<double> widened(const Floats& values) { return {values.begin(), values.end()}; }

TEST_CASE("functions of float32 and their gradients are those of float64, rounded", "[kernels]") {
  const UnaryFunction f = any_function();
  CAPTURE(f.kind);
  const Floats x = arguments_of(f, 1003), grad_y = ddp::test::uniform<float>(x.size(), 4);
  ddp::test::check_close(forward(x, f), forward(widened(x), f));
  ddp::test::check_close(backward(x, grad_y, f), backward(widened(x), widened(grad_y), f));
}

TEST_CASE("a function's value does not depend on the element's place", "[kernels]") {
  const UnaryFunction f = any_function();
  CAPTURE(f.kind);
  Floats x = arguments_of(f, 37);
  x[3] = kInfinity;
  const Floats y = forward(x, f);
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(i, x[i]);
    CHECK(forward(Floats{x[i]}, f)[0] == y[i]);
  }
  x[20] = kNan;
  const Floats with_nan = forward(x, f);
  CHECK(std::isnan(with_nan[20]));
  CHECK(with_nan[19] == y[19]);
  CHECK(with_nan[21] == y[21]);
}

TEST_CASE("a loop has the same bits in vectors of all widths", "[kernels]") {
  const Floats x = arguments_of({UnaryKind::kGelu}, 1003);
  Floats narrow(x.size()), wide(x.size());
  const auto loop_of = [&](Floats& y) {
    return [&] {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[i] = x[i] * ddp::detail::normal_cdf(x[i]) + std::sqrt(std::abs(x[i])) / 3;
      }
    };
  };
  loop_of(narrow)();
  ddp::vectorised(loop_of(wide));
  CHECK(narrow == wide);
#if defined(__x86_64__) && defined(__GNUC__)
  if (ddp::has_avx2()) {
    Floats of_avx2(x.size());
    ddp::with_avx2(loop_of(of_avx2));
    CHECK(narrow == of_avx2);
  }
#endif
}

TEST_CASE("clamp has no slope at NaN, as in PyTorch", "[kernels]") {
  CHECK(backward(Floats{kNan, 0.5F}, Floats{3, 3}, {UnaryKind::kClamp, -1, 1}) == Floats{0, 3});
}

TEST_CASE("dropout keeps what its draws say, in rows longer than a block", "[kernels]") {
  const double probability = GENERATE(0.0, 0.3, 0.5, 1.0);
  const auto columns = GENERATE(1U, 2U, 7U, 256U, 257U, 700U);
  const auto mode = GENERATE(WriteMode::kOverwrite, WriteMode::kAccumulate);
  CAPTURE(probability, columns);
  constexpr std::size_t kRows = 3;
  const ddp::DropoutMask mask{probability, 11, 5, 2};
  Floats x = ddp::test::uniform<float>(kRows * columns, 1);
  Floats y = ddp::test::initial_gradient<float>(x.size(), mode);
  std::vector<double> expected;
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const std::uint64_t draws = ddp::random_bits(mask.key, mask.first_row + r * 2, c / 2);
      const std::uint64_t draw = c % 2 == 0 ? draws & 0xffffffffU : draws >> 32;
      const bool is_kept = static_cast<double>(draw) >= probability * 0x1p32;
      const auto value = static_cast<double>(x[r * columns + c]);
      expected.push_back(is_kept ? value / (1 - probability) : 0);
    }
  }
  ddp::cpu::dropout(buffer_of(x), {buffer_of(y), mode}, mask, {kRows, columns});
  ddp::test::check_close(y, ddp::test::expected_gradient<float>(expected, mode));
}

TEST_CASE("pointwise losses of float32 are those of float64, rounded", "[kernels]") {
  const auto kind =
      GENERATE(ddp::PointwiseLossKind::kSquaredError, ddp::PointwiseLossKind::kBceWithLogits);
  const ddp::MatrixShape shape{5, GENERATE(1U, 7U, 300U)};
  const auto losses = [&](auto x, auto target) {
    decltype(x) rows(shape.rows), loss(1), grad_x(x.size());
    const ddp::PointwiseLoss f{kind};
    ddp::cpu::pointwise_loss_forward(buffer_of(x), buffer_of(target),
                                     {buffer_of(rows), buffer_of(loss)}, shape, f);
    ddp::cpu::pointwise_loss_backward(buffer_of(x), buffer_of(target), buffer_of(loss),
                                      {buffer_of(grad_x)}, shape, f);
    rows.insert(rows.end(), grad_x.begin(), grad_x.end());
    rows.push_back(loss[0]);
    return rows;
  };
  Floats x = ddp::test::uniform<float>(shape.count(), 1);
  for (float& value : x) value *= 20;
  Floats target = ddp::test::uniform<float>(shape.count(), 2);
  for (float& value : target) value = std::abs(value);
  ddp::test::check_close(losses(x, target), losses(widened(x), widened(target)));
}

TEST_CASE("the gradient of a mean of squared errors overflows only if it is too large itself",
          "[kernels]") {
  Floats x(1000, 3e38F), target(1000, 0), one{1}, grad_x(1000);
  ddp::cpu::pointwise_loss_backward(buffer_of(x), buffer_of(target), buffer_of(one),
                                    {buffer_of(grad_x)}, {1, 1000},
                                    {ddp::PointwiseLossKind::kSquaredError});
  for (const float gradient : grad_x) CHECK(gradient == Approx(6e35));
}

}  // namespace
