// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ddp::bench {

// Summary of repeated measurements: the median and the two quartiles.
struct Summary {
  double median = 0;
  double lower_quartile = 0;
  double upper_quartile = 0;

  // Half the interquartile range, in percent of the median.
  [[nodiscard]] double spread_percent() const;
};

// Quartiles by linear interpolation; `samples` must not be empty.
[[nodiscard]] Summary summarize(std::vector<double> samples);

// Summarizes numerator[i] / denominator[i]. The samples of one round are close together in time, so
// their ratio remains meaningful on a machine whose speed drifts.
[[nodiscard]] Summary ratio(const std::vector<double>& numerator,
                            const std::vector<double>& denominator);

// One thing to measure; each call of `measure` returns one sample.
struct Variant {
  std::string name;
  std::function<double()> measure;
  std::vector<double> samples = {};
};

// Measures every variant once per round. The order rotates by one each round, so that no variant
// always follows the same neighbour. A round before the first warms up and is discarded.
void interleave(std::vector<Variant>& variants, int rounds);

}  // namespace ddp::bench
