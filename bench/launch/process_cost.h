// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

namespace ddp::bench {

struct ProcessCost {
  double cpu_seconds = 0;  // of all threads, since they started
  double resident_mib = 0;
};

// The cost of a process and of those of its descendants that run the same executable: a launcher
// without its workers. Shared pages are counted for each process. Throws Error if it has ended.
[[nodiscard]] ProcessCost cost_of_launcher(pid_t pid);

}  // namespace ddp::bench
