// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace ddp::bench {

// "# bench_store · AMD EPYC, 2 CPUs · Linux 6.1 · load 0.3 · 2026-11-21 12:00 UTC · Release": the
// conditions under which figures were measured.
[[nodiscard]] std::string header_line(const std::string& name);

// "3.14" with two digits behind the point. For programs that may not include fmt: LibTorch has
// headers of another version of it.
[[nodiscard]] std::string rounded(double value, int digits);

// A table on standard output: a line of titles, then one row after the other. Each cell is
// right-aligned under its title and flushed at once, so that a long run shows its progress.
class Table {
 public:
  struct Column {
    std::string title;
    int width;
  };

  explicit Table(std::vector<Column> columns);

  void print_titles() const;
  void print_row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
};

}  // namespace ddp::bench
