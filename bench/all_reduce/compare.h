// SPDX-License-Identifier: MIT
#pragma once

#include "all_reduce/options.h"

namespace ddp::bench {

// Measures the contenders (contenders.h) and Open MPI in turns, size by size, and prints a table.
// Collective, on one host, under a launcher that hosts the store. Throws if one of them computes a
// wrong sum.
void compare(const AllReduceOptions& options);

}  // namespace ddp::bench
