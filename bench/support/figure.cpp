// SPDX-License-Identifier: MIT
#include "support/figure.h"

#include <fmt/core.h>

#include <cstdio>

namespace ddp::bench {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string written(const std::variant<std::string, double>& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  return fmt::format("{:.6g}", std::get<double>(value));
}

}  // namespace

void print_figure(const Figure& figure, const Summary& summary, std::size_t samples) {
  std::string line =
      fmt::format(R"({{"figure":{},"unit":{},"median":{:.6g},"spread":{:.3g},"n":{})",
                  quoted(figure.name), quoted(figure.unit), summary.median,
                  (summary.upper_quartile - summary.lower_quartile) / 2, samples);
  for (const auto& [name, value] : figure.labels) {
    line += fmt::format(",{}:{}", quoted(name), written(value));
  }
  std::puts((line + "}").c_str());
  std::fflush(stdout);
}

Labels operator+(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace ddp::bench
