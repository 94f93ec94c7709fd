// SPDX-License-Identifier: MIT
//
// Sums over a row, or over the planes of an image, that are exact enough to be subtracted from each
// other. The compiler may not reorder additions of floating-point numbers, so it cannot vectorise a
// loop with a single sum; here each sum is kLanes partial sums in float64.
#pragma once

#include <cstddef>

namespace ddp::detail {

class WideSum {
 public:
  static constexpr std::size_t kLanes = 16;

  // Adds term(i), term(i + 1), ... to the partial sums.
  template <class Term>
  void add_lanes(std::size_t i, const Term& term) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes_[lane] += static_cast<double>(term(i + lane));
    }
  }

  template <class Term>
  void add_to(std::size_t lane, Term term) {
    lanes_[lane] += static_cast<double>(term);
  }

  [[nodiscard]] double total() const {
    double sums[kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] = lanes_[lane];
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    return sums[0];
  }

 private:
  double lanes_[kLanes] = {};
};

// The sum of term(i) over all i below `count`.
template <class Term>
double wide_sum(std::size_t count, const Term& term) {
  WideSum lanes;
  std::size_t i = 0;
  for (; i + WideSum::kLanes <= count; i += WideSum::kLanes) lanes.add_lanes(i, term);
  double sum = i == 0 ? 0 : lanes.total();
  for (; i < count; ++i) sum += static_cast<double>(term(i));
  return sum;
}

struct TwoSums {
  double first;
  double second;
};

// Two sums in one pass.
class TwoWideSums {
 public:
  // Adds first(i) and second(i) of all i below the returned number, from which on at most
  // kLanes - 1 terms are left.
  template <class First, class Second>
  std::size_t add_lanes(std::size_t count, const First& first, const Second& second) {
    std::size_t i = 0;
    for (; i + WideSum::kLanes <= count; i += WideSum::kLanes) {
      first_.add_lanes(i, first);
      second_.add_lanes(i, second);
    }
    return i;
  }

  // Adds first(i) and second(i) of all i below `count`.
  template <class First, class Second>
  void add(std::size_t count, const First& first, const Second& second) {
    TwoWideSums sums = *this;  // a copy can stay in registers
    std::size_t i = sums.add_lanes(count, first, second);
    for (std::size_t lane = 0; i < count; ++i, ++lane) {
      sums.first_.add_to(lane, first(i));
      sums.second_.add_to(lane, second(i));
    }
    *this = sums;
  }

  [[nodiscard]] TwoSums totals() const { return {first_.total(), second_.total()}; }

 private:
  WideSum first_;
  WideSum second_;
};

template <class First, class Second>
TwoSums wide_sums(std::size_t count, const First& first, const Second& second) {
  TwoWideSums lanes;
  std::size_t i = lanes.add_lanes(count, first, second);
  TwoSums sums = i == 0 ? TwoSums{0, 0} : lanes.totals();
  for (; i < count; ++i) {
    sums.first += static_cast<double>(first(i));
    sums.second += static_cast<double>(second(i));
  }
  return sums;
}

}  // namespace ddp::detail
