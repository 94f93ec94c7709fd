// SPDX-License-Identifier: MIT
//
// Measurements on a GPU are printed in a machine-readable form. A figure is a line of JSON on
// standard output,
//   {"figure":"step","unit":"ms","median":9.1,"spread":0.02,"n":30,"model":"resnet18","batch":64}
// in which `spread` is half the interquartile range of `n` samples, in the figure's unit. The
// labels that follow distinguish the figure from others of the same name.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/statistics.h"

namespace ddp::bench {

using Labels = std::vector<std::pair<std::string, std::variant<std::string, double>>>;

struct Figure {
  std::string name;
  std::string unit;
  Labels labels = {};
};

void print_figure(const Figure& figure, const Summary& summary, std::size_t samples);
inline void print_figure(const Figure& figure, const std::vector<double>& samples) {
  print_figure(figure, summarize(samples), samples.size());
}
// Prints a figure that needs only one sample, such as a count.
inline void print_count(const Figure& figure, double count) {
  print_figure(figure, std::vector<double>{count});
}

[[nodiscard]] Labels operator+(Labels a, const Labels& b);

}  // namespace ddp::bench
