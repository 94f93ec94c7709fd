// SPDX-License-Identifier: MIT
//
// Conversions of the 16-bit types: all bit patterns, and rounding compared with arithmetic in
// double.
#include "ddp/base/half.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

using ddp::BFloat16;
using ddp::Float16;

namespace {

// The parameters of a 16-bit format.
template <class Half>
struct Format;
template <>
struct Format<Float16> {
  static constexpr int kMantissaBits = 10;
  static constexpr int kMinExponent = -14;
  static constexpr double kOverflow = 0x1p16;
};
template <>
struct Format<BFloat16> {
  static constexpr int kMantissaBits = 7;
  static constexpr int kMinExponent = -126;
  static constexpr double kOverflow = 0x1p128;
};

template <class Half>
Half half_of(std::uint32_t bits) {
  return std::bit_cast<Half>(static_cast<std::uint16_t>(bits));
}

// The value of the bits by the definition of the format.
template <class Half>
double value_of(std::uint32_t bits) {
  using F = Format<Half>;
  const std::uint32_t mantissa = bits & ((1U << F::kMantissaBits) - 1);
  const auto exponent = static_cast<int>((bits & 0x7fffU) >> F::kMantissaBits);
  const int last = (1 << (15 - F::kMantissaBits)) - 1;
  double value = 0;
  if (exponent == last) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, F::kMinExponent - F::kMantissaBits);
  } else {
    value = std::ldexp(mantissa + (1U << F::kMantissaBits),
                       exponent - 1 + F::kMinExponent - F::kMantissaBits);
  }
  return (bits & 0x8000U) != 0 ? -value : value;
}

// The nearest value of the format. std::nearbyint rounds ties to even.
template <class Half>
double rounded(float value) {
  using F = Format<Half>;
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), F::kMinExponent);
  const double spacing = std::ldexp(1.0, exponent - F::kMantissaBits);
  const double nearest = std::nearbyint(value / spacing) * spacing;
  if (std::abs(nearest) < F::kOverflow) return nearest;
  return std::copysign(std::numeric_limits<double>::infinity(), nearest);
}

template <class Half>
bool rounds_well(float value) {
  const auto actual = static_cast<double>(static_cast<float>(Half(value)));
  if (std::isnan(value)) return std::isnan(actual);
  return actual == rounded<Half>(value) && std::signbit(actual) == std::signbit(value);
}

}  // namespace

TEMPLATE_TEST_CASE("all 65536 patterns widen to their value and round back", "[half]", Float16,
                   BFloat16) {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = static_cast<float>(half_of<TestType>(bits));
    const double expected = value_of<TestType>(bits);
    if (std::isnan(expected)) {
      const auto again = static_cast<float>(TestType(value));
      if (!std::isnan(value) || !std::isnan(again)) ++wrong;
    } else if (double{value} != expected || TestType(value).bits() != bits) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("ties round to even, other values to the nearest neighbour", "[half]", Float16,
                   BFloat16) {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x7fff; ++bits) {
    const double low = value_of<TestType>(bits);
    const double high = value_of<TestType>(bits + 1);
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const auto middle = static_cast<float>((low + high) / 2);
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    if (TestType(middle).bits() != even) ++wrong;
    if (TestType(-middle).bits() != (even | 0x8000U)) ++wrong;
    if (TestType(std::nextafter(middle, 0.0F)).bits() != bits) ++wrong;
    if (TestType(std::nextafter(middle, INFINITY)).bits() != bits + 1) ++wrong;
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("random floats of every magnitude round to nearest even", "[half]", Float16,
                   BFloat16) {
  std::mt19937 random(20240229);
  int wrong = 0;
  for (int i = 0; i < 2000000; ++i) {
    if (!rounds_well<TestType>(std::bit_cast<float>(static_cast<std::uint32_t>(random())))) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("overflow, underflow, infinity, NaN and signed zero are rounded as IEEE 754 says",
          "[half]") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(Float16(65504.0F).bits() == 0x7bff);
  CHECK(Float16(std::nextafter(65520.0F, 0.0F)).bits() == 0x7bff);
  CHECK(Float16(65520.0F).bits() == 0x7c00);
  CHECK(Float16(-1e30F).bits() == 0xfc00);
  CHECK(Float16(0x1p-25F).bits() == 0);
  CHECK(Float16(std::nextafter(0x1p-25F, 1.0F)).bits() == 1);
  CHECK(BFloat16(std::numeric_limits<float>::max()).bits() == 0x7f80);
  CHECK(BFloat16(std::numeric_limits<float>::denorm_min()).bits() == 0);
  CHECK(Float16(infinity).bits() == 0x7c00);
  CHECK(BFloat16(-infinity).bits() == 0xff80);
  CHECK(Float16(-0.0F).bits() == 0x8000);
  CHECK(BFloat16(-0.0F).bits() == 0x8000);
  CHECK(std::isnan(static_cast<float>(Float16(std::nanf("")))));
  CHECK(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001U)))));
}
