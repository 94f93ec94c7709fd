// SPDX-License-Identifier: MIT
#pragma once

#include "all_reduce/options.h"

namespace ddp::bench {

// Measures the contenders (contenders.h) and Open MPI side by side, size by size, in turns, and
// prints a table. Collective, under a launcher that hosts the store, on one host. Throws if one of
// them sums wrong.
void compare(const AllReduceOptions& options);

}  // namespace ddp::bench
