// SPDX-License-Identifier: MIT
//
// What /proc says about processes. Without /proc there are simply no answers.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>
#include <vector>

namespace ddp::launcher {

struct ProcessStat {
  pid_t pid = 0;
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  unsigned flags = 0;  // PF_* of the kernel

  [[nodiscard]] bool is_zombie() const { return state == 'Z' || state == 'X'; }

  // From the first moment of its death on: before its sockets are closed, so before any peer can
  // notice and die of it.
  [[nodiscard]] bool is_exiting() const;
};

// Parses /proc/PID/stat; see proc(5).
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

// Every process of this host, in no particular order.
[[nodiscard]] std::vector<pid_t> all_pids();

[[nodiscard]] std::optional<ProcessStat> read_process(pid_t pid);

// Every living process below `root`, in no particular order, without `excluded` ones and those
// below them.
[[nodiscard]] std::vector<ProcessStat> living_descendants(pid_t root,
                                                          const std::vector<pid_t>& excluded);

}  // namespace ddp::launcher
