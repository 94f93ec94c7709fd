// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "support/report.h"
#include "support/statistics.h"

namespace ddp::bench {

// A table with a row for each size: the times of "bound", "shm", "user", "tcp" and "OpenMPI", and
// some of their ratios.
[[nodiscard]] Table make_comparison_table();

// Prints one row, with "-" for variants that were not measured.
void print_comparison(const Table& table, std::size_t bytes, const std::vector<Variant>& variants);

}  // namespace ddp::bench
