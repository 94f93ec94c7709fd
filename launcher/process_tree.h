// SPDX-License-Identifier: MIT
//
// What /proc says about all processes. Without /proc there are simply no answers.
#pragma once

#include <sys/types.h>

#include <vector>

#include "ddp/base/process_status.h"

namespace ddp::launcher {

// Every process of this host, in no particular order.
[[nodiscard]] std::vector<pid_t> all_pids();

// Every living process below `root`, in no particular order, without `excluded` ones and those
// below them.
[[nodiscard]] std::vector<ProcessStat> living_descendants(pid_t root,
                                                          const std::vector<pid_t>& excluded);

}  // namespace ddp::launcher
