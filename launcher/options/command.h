// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "launcher/options/options.h"

namespace ddp::launcher {

// The arguments of execve.
struct Command {
  std::string path;
  std::vector<std::string> argv;
  std::size_t local_rank_at = 0;  // where --local-rank=N goes in argv; 0: nowhere
};

// Looks PROGRAM up as execvp(3) does, so that a wrong name is refused before anything starts. Two
// kinds of script need no #! line: a .py file runs under python3 -u (unbuffered, so that lines
// appear at once), and any other text file under /bin/sh, as with execvp. A module runs under
// python3 -u -m. Throws LaunchError with exit code 127 (not found) or 126 (found, but cannot be
// executed).
[[nodiscard]] Command resolve_command(const ProgramOptions& program,
                                      const std::string& search_path);

// The arguments of one worker's execve.
[[nodiscard]] Command command_of(const Command& command, int local_rank);

}  // namespace ddp::launcher
