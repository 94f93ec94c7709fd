// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

// What execve is given.
struct Command {
  std::string path;
  std::vector<std::string> argv;
};

// Looks PROGRAM (typed.front()) up as execvp(3) does, so that a wrong name is refused before
// anything starts. Two kinds of script need no #! line: a .py file runs under python3 -u (its
// lines must not sit in a buffer), any other text under /bin/sh, as execvp has it.
// Throws LaunchError with exit code 127 (not found) or 126 (found, but cannot be executed).
[[nodiscard]] Command resolve_command(const std::vector<std::string>& typed,
                                      const std::string& search_path);

}  // namespace ddp::launcher
