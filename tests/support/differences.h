// SPDX-License-Identifier: MIT
//
// Differences of numbers. They are NaN if one of the numbers is, which std::max would pass over.
#pragma once

#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string>

namespace ddp::test {

inline double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

template <class Numbers>
[[nodiscard]] double largest_magnitude(const Numbers& numbers) {
  double largest = 0;
  for (const auto each : numbers) largest = larger(largest, std::abs(static_cast<double>(each)));
  return largest;
}

// The largest difference of an element.
template <class A, class B>
[[nodiscard]] double largest_difference(const A& a, const B& b) {
  if (std::size(a) != std::size(b)) {
    throw std::invalid_argument(std::to_string(std::size(a)) + " numbers are compared with " +
                                std::to_string(std::size(b)));
  }
  double largest = 0;
  for (std::size_t i = 0; i < std::size(a); ++i) {
    largest = larger(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

// The largest difference of an element, relative to the largest element of `a`.
template <class A, class B>
[[nodiscard]] double relative_difference(const A& a, const B& b) {
  const double difference = largest_difference(a, b);
  return difference == 0 ? 0 : difference / largest_magnitude(a);
}

}  // namespace ddp::test
