// SPDX-License-Identifier: MIT
//
// For tests that compare kernels in float32 and float64 with sums in float64.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "ddp/kernels/shapes.h"

namespace ddp::test {

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

// What a kernel must overwrite.
template <class T>
Values<T> poison(std::size_t count) {
  return Values<T>(count, std::numeric_limits<T>::quiet_NaN());
}

// The contents of a gradient's memory before a kernel writes it: poison, or an earlier gradient.
template <class T>
Values<T> initial_gradient(std::size_t count, WriteMode mode) {
  return mode == WriteMode::kOverwrite ? poison<T>(count) : uniform<T>(count, 99);
}

// The gradient that a kernel must leave there: `sums`, added to the earlier gradient if the mode
// says so.
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

}  // namespace ddp::test
