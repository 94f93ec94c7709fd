// SPDX-License-Identifier: MIT
//
// Reads all processes from /proc. Without /proc the results are empty.
#pragma once

#include <sys/types.h>

#include <vector>

#include "ddp/base/system/process_status.h"
#include "ddp/base/time.h"

namespace ddp::launcher {

// Every process of this host, in no particular order.
[[nodiscard]] std::vector<pid_t> all_pids();

// Every living process below `root`, in no particular order, except those in `excluded` and their
// descendants.
[[nodiscard]] std::vector<ProcessStat> living_descendants(pid_t root,
                                                          const std::vector<pid_t>& excluded);

// Processes fork while they are killed. So whoever ends a tree sends SIGKILL every kKillInterval,
// until nothing is left or kKillTimeout has passed.
inline constexpr Timeout kKillTimeout{2000};
inline constexpr Timeout kKillInterval{20};

}  // namespace ddp::launcher
