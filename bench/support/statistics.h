// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ddp::bench {

// What repeats of one measurement came to: the median and the quartiles around it.
struct Summary {
  double median = 0;
  double lower_quartile = 0;
  double upper_quartile = 0;

  // Half the interquartile range, in percent of the median.
  [[nodiscard]] double spread_percent() const;
};

// Quartiles by linear interpolation; `samples` must not be empty.
[[nodiscard]] Summary summarize(std::vector<double> samples);

// numerator[i] / denominator[i]. Samples of one round lie close together in time, so the ratio
// keeps its worth on a machine whose speed drifts.
[[nodiscard]] Summary ratio(const std::vector<double>& numerator,
                            const std::vector<double>& denominator);

// One thing to measure; a call returns one sample.
struct Variant {
  std::string name;
  std::function<double()> measure;
  std::vector<double> samples = {};
};

// Measures every variant once a round, in an order that moves on by one each round: none of them
// always follows the same neighbour. One round before them warms up and is thrown away.
void interleave(std::vector<Variant>& variants, int rounds);

}  // namespace ddp::bench
