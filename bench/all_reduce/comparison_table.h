// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "support/report.h"
#include "support/statistics.h"

namespace ddp::bench {

// A row for each size: the times of "bound", "shm", "user", "gloo" and "OpenMPI", and what is to be
// told of them in ratios.
[[nodiscard]] Table make_comparison_table();

// "-" for variants that are not there.
void print_comparison(const Table& table, std::size_t bytes, const std::vector<Variant>& variants);

}  // namespace ddp::bench
