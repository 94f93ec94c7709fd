// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>

#include "ddp/kernels/detail/elementary.h"
#include "ddp/kernels/detail/wide_sums.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::detail {

// At least one column. A NaN may be passed over.
template <class T>
T row_maximum(const T* row, std::size_t columns) {
  constexpr std::size_t kLanes = 8;
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, row[0]);
  std::size_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = lanes[lane] < row[c + lane] ? row[c + lane] : lanes[lane];
    }
  }
  for (; c < columns; ++c) lanes[0] = std::max(lanes[0], row[c]);
  return *std::max_element(lanes, lanes + kLanes);
}

// y = softmax(x) of a row of at least one column whose largest element is `maximum`; x and y may be
// the same memory. Returns the sum of exp(x - maximum).
template <class T>
T softmax_row(const T* x, T* y, std::size_t columns, T maximum) {
  write_each(y, WriteMode::kOverwrite, columns, [=](std::size_t c) { return exp(x[c] - maximum); });
  const T sum = static_cast<T>(wide_sum(columns, [y](std::size_t c) { return y[c]; }));
  const T inverse = T{1} / sum;
  for (std::size_t c = 0; c < columns; ++c) y[c] *= inverse;
  return sum;
}

}  // namespace ddp::detail
