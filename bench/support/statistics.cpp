// SPDX-License-Identifier: MIT
#include "support/statistics.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ddp::bench {
namespace {

double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

}  // namespace

double Summary::spread_percent() const {
  return median == 0 ? 0 : 100 * (upper_quartile - lower_quartile) / 2 / median;
}

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) throw std::invalid_argument("summarize: no samples");
  std::sort(samples.begin(), samples.end());
  return {.median = quantile(samples, 0.5),
          .lower_quartile = quantile(samples, 0.25),
          .upper_quartile = quantile(samples, 0.75)};
}

Summary ratio(const std::vector<double>& numerator, const std::vector<double>& denominator) {
  if (numerator.size() != denominator.size()) {
    throw std::invalid_argument("ratio: " + std::to_string(numerator.size()) + " samples over " +
                                std::to_string(denominator.size()));
  }
  std::vector<double> ratios(numerator.size());
  std::transform(numerator.begin(), numerator.end(), denominator.begin(), ratios.begin(),
                 std::divides<>());
  return summarize(std::move(ratios));
}

void interleave(std::vector<Variant>& variants, int rounds) {
  if (rounds < 1) throw std::invalid_argument("interleave: " + std::to_string(rounds) + " rounds");
  for (const Variant& variant : variants) static_cast<void>(variant.measure());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      Variant& variant = variants[(i + static_cast<std::size_t>(round)) % variants.size()];
      variant.samples.push_back(variant.measure());
    }
  }
}

}  // namespace ddp::bench
