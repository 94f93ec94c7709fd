// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>

#include "ddp/io/safetensors.h"

namespace ddp::test {

// The largest difference of a tensor relative to its largest element; the maximum over all tensors.
template <class T = double>
[[nodiscard]] double largest_relative_difference(const Safetensors& a, const Safetensors& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  double largest = 0;
  for (std::size_t t = 0; t < a.tensors.size(); ++t) {
    REQUIRE(a.tensors[t].name == b.tensors[t].name);
    const auto x = a.tensors[t].buffer.as<T>();
    const auto y = b.tensors[t].buffer.as<T>();
    double difference = 0;
    double magnitude = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      magnitude = std::max(magnitude, std::abs(static_cast<double>(x[i])));
      difference =
          std::max(difference, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
    }
    largest = std::max(largest, difference / magnitude);
  }
  return largest;
}

}  // namespace ddp::test
