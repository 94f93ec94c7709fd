// SPDX-License-Identifier: MIT
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>

#include "ddp/io/safetensors.h"
#include "support/differences.h"

namespace ddp::test {

// The largest difference of a tensor relative to its largest element; the maximum over all tensors,
// which are of type T, or are counts (int64).
template <class T = double>
[[nodiscard]] double largest_relative_difference(const Safetensors& a, const Safetensors& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  double largest = 0;
  for (std::size_t t = 0; t < a.tensors.size(); ++t) {
    const Buffer& x = a.tensors[t].buffer;
    const Buffer& y = b.tensors[t].buffer;
    REQUIRE(a.tensors[t].name == b.tensors[t].name);
    largest = larger(largest, x.dtype == DType::kInt64
                                  ? relative_difference(x.as<std::int64_t>(), y.as<std::int64_t>())
                                  : relative_difference(x.as<T>(), y.as<T>()));
  }
  return largest;
}

}  // namespace ddp::test
