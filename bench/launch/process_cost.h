// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

namespace ddp::bench {

struct ProcessCost {
  double cpu_seconds = 0;  // of all threads since their start
  double resident_mib = 0;
};

// Of the process and those below it that run the same executable: a launcher without its workers.
// Pages that they share count for each.
[[nodiscard]] ProcessCost cost_of_launcher(pid_t pid);

}  // namespace ddp::bench
