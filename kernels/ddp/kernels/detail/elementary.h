// SPDX-License-Identifier: MIT
//
// Elementary functions that compilers can vectorise: those of float32 are arithmetic without
// branches or calls. Each result depends on its argument only, not on where in a vector it stands.
// elementwise_test.cpp tells how far they are from the exact values.
//
// Source of the coefficients: tests/reference/make_elementary_coefficients.py.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ddp/kernels/detail/host_device.h"

namespace ddp::detail {

template <class T>
DDP_HOST_DEVICE T exp(T x) {
  return std::exp(x);
}

template <class T>
DDP_HOST_DEVICE T tanh(T x) {
  return std::tanh(x);
}

template <class T>
DDP_HOST_DEVICE T log(T x) {
  return std::log(x);
}

// log(1 + e) for e in [0, 1].
template <class T>
DDP_HOST_DEVICE T log1p_of_fraction(T e) {
  return std::log1p(e);
}

// The cumulative distribution function of the standard normal distribution.
template <class T>
DDP_HOST_DEVICE T normal_cdf(T x) {
  constexpr T kSqrtHalf = static_cast<T>(0.70710678118654752440);
  return (T{1} + std::erf(x * kSqrtHalf)) / T{2};
}

#ifndef __CUDACC__

// x = exponent * log(2) + remainder, with |remainder| <= log(2) / 2.
struct ReducedExponent {
  float remainder;
  std::int32_t exponent;

  explicit ReducedExponent(float x) {
    // Adding 1.5 * 2^23 rounds to an integer, which the sum's lowest bits are.
    constexpr float kRound = 12582912.0F;
    const float sum = x * 1.44269504F + kRound;
    const float rounded = sum - kRound;
    // log(2) in two parts; products with the first are exact.
    remainder = (x - rounded * 0.693359375F) + rounded * 2.12194440e-4F;
    exponent = std::bit_cast<std::int32_t>(sum) - std::bit_cast<std::int32_t>(kRound);
  }

  // exp(remainder) - 1
  [[nodiscard]] float expm1() const {
    const float r = remainder;
    float p = 0.000198909908F;
    p = p * r + 0.001393365F;
    p = p * r + 0.00833331093F;
    p = p * r + 0.0416664649F;
    p = p * r + 0.166666667F;
    p = p * r + 0.5F;
    return p * (r * r) + r;
  }
};

// For exponents from -126 to 127.
inline float power_of_two(std::int32_t exponent) {
  return std::bit_cast<float>((exponent + 127) << 23);
}

inline float exp(float x) {
  // The results of the limits are 0 and infinity. A NaN passes.
  const float raised = x < -104.0F ? -104.0F : x;
  const ReducedExponent reduced(raised > 89.0F ? 89.0F : raised);
  // In two factors: the result may be subnormal.
  const std::int32_t half = reduced.exponent >> 1;
  return (reduced.expm1() + 1.0F) * power_of_two(half) * power_of_two(reduced.exponent - half);
}

// tanh(|x|) = -m / (m + 2) with m = exp(-2 |x|) - 1.
inline float tanh(float x) {
  const float doubled = -2.0F * std::abs(x);
  const ReducedExponent reduced(doubled < -40.0F ? -40.0F : doubled);
  const float power = power_of_two(reduced.exponent);
  const float m = power * reduced.expm1() + (power - 1.0F);
  return std::copysign(m / (m + 2.0F), x);
}

// x = m * 2^exponent, with m from sqrt(1/2) to sqrt(2). With d = m - 1 and s = d / (2 + d),
//   log(m) = 2 atanh(s) = 2 s + 2 s^3 P(s^2) = d - s (d - 2 s^2 P(s^2)),
// in which d is exact.
inline float log(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::uint32_t kSqrtHalf = std::bit_cast<std::uint32_t>(0.707106781F);
  const bool is_subnormal = x < std::numeric_limits<float>::min();
  const float normal = is_subnormal ? x * 8388608.0F : x;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(normal) - kSqrtHalf;
  const std::int32_t exponent = (static_cast<std::int32_t>(bits) >> 23) - (is_subnormal ? 23 : 0);
  const float d = std::bit_cast<float>((bits & 0x7FFFFF) + kSqrtHalf) - 1.0F;
  const float s = d / (2.0F + d);
  const float z = s * s;
  float p = 0.149623351F;
  p = p * z + 0.199874201F;
  p = p * z + 0.333334077F;
  // log(2) in two parts, as above.
  const auto factor = static_cast<float>(exponent);
  const float log_of_m = d - s * (d - 2.0F * z * p);
  const float result = factor * 0.693359375F + (log_of_m - factor * 2.12194440e-4F);
  const float of_others = x == 0.0F ? -kInfinity : std::numeric_limits<float>::quiet_NaN();
  const float finite = x > 0.0F ? result : of_others;
  return x == kInfinity ? x : finite;
}

// log(1 + e) = 2 atanh(e / (2 + e)).
inline float log1p_of_fraction(float e) {
  const float s = e / (2.0F + e);
  const float z = s * s;
  float p = 0.140788892F;
  p = p * z + 0.139825789F;
  p = p * z + 0.200122976F;
  p = p * z + 0.333331608F;
  p = p * z + 1.0F;
  return 2.0F * s * p;
}

// The tail beyond |x| is exp(-x^2 / 2) times a function that varies slowly: no difference of
// numbers near 1.
inline float normal_cdf(float x) {
  const float u = 1.0F / (1.0F + 0.35F * std::abs(x));
  float p = -0.029770439F;
  p = p * u + 0.146950922F;
  p = p * u - 0.261712669F;
  p = p * u + 0.165801802F;
  p = p * u - 0.0274828896F;
  p = p * u + 0.107262773F;
  p = p * u + 0.119417036F;
  p = p * u + 0.139914804F;
  p = p * u + 0.139618643F;
  const float tail = exp(-x * x / 2.0F) * u * p;
  return x > 0.0F ? 1.0F - tail : tail;
}

#endif

}  // namespace ddp::detail
