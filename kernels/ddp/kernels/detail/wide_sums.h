// SPDX-License-Identifier: MIT
//
// Sums over the planes of an image that are exact enough to be subtracted from each other.
#pragma once

#include <cstddef>

#include "ddp/kernels/detail/lanes.h"

namespace ddp::detail {

// Two sums at once. The compiler may not reorder additions of floating-point numbers, so it cannot
// vectorise a loop with a single sum; here each sum is kLanes partial sums in float64.
struct WideSums {
  static constexpr std::size_t kLanes = 8;
  using Vector = Lanes<double, kLanes * sizeof(double)>::Vector;

  // The next kLanes elements.
  template <class T>
  static const auto& lanes(const T* elements) {
    return *reinterpret_cast<const typename Lanes<T, kLanes * sizeof(T)>::Unaligned*>(elements);
  }

  Vector first{};
  Vector second{};

  static double total(const Vector& v) {
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
  }
};

}  // namespace ddp::detail
