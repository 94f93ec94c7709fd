// SPDX-License-Identifier: MIT
#include "all_reduce/comparison_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ddp::bench {
namespace {

constexpr const char* kTimes[] = {"bound", "shm", "user", "tcp", "OpenMPI"};
constexpr std::pair<const char*, const char*> kRatios[] = {
    {"tcp", "shm"}, {"OpenMPI", "shm"}, {"bound", "shm"}, {"tcp", "user"}, {"OpenMPI", "user"}};

// The samples of a variant, or null if it was not measured.
const std::vector<double>* samples_of(const std::vector<Variant>& variants,
                                      const std::string& name) {
  const auto found = std::find_if(variants.begin(), variants.end(),
                                  [&](const Variant& variant) { return variant.name == name; });
  return found == variants.end() ? nullptr : &found->samples;
}

std::string cell(const Summary& summary) {
  const int digits = summary.median < 1 ? 3 : summary.median < 100 ? 2 : 0;
  return fmt::format("{:.{}f} {:2.0f}%", summary.median, digits, summary.spread_percent());
}

std::string time_cell(const std::vector<Variant>& variants, const std::string& name) {
  const auto* samples = samples_of(variants, name);
  return samples == nullptr ? "-" : cell(summarize(*samples));
}

std::string ratio_cell(const std::vector<Variant>& variants, const std::string& numerator,
                       const std::string& denominator) {
  const auto* above = samples_of(variants, numerator);
  const auto* below = samples_of(variants, denominator);
  if (above == nullptr || below == nullptr) return "-";
  return cell(ratio(*above, *below));
}

}  // namespace

Table make_comparison_table() {
  std::vector<Table::Column> columns = {{"size(B)", 10}};
  for (const char* name : kTimes) columns.push_back({fmt::format("{}(us) +-", name), 14});
  for (const auto& [numerator, denominator] : kRatios) {
    columns.push_back({fmt::format("{}/{} +-", numerator, denominator), 15});
  }
  return Table(std::move(columns));
}

void print_comparison(const Table& table, std::size_t bytes, const std::vector<Variant>& variants) {
  std::vector<std::string> cells = {std::to_string(bytes)};
  for (const char* name : kTimes) cells.push_back(time_cell(variants, name));
  for (const auto& [numerator, denominator] : kRatios) {
    cells.push_back(ratio_cell(variants, numerator, denominator));
  }
  table.print_row(cells);
}

}  // namespace ddp::bench
