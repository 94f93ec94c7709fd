// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace ddp::prove {

struct Options {
  bool help = false;
  std::vector<int> ranks;  // at least two numbers; the first is the reference
  int steps = 3;
  double tolerance = 1e-3;           // of relative differences
  std::vector<std::string> command;  // for ddp-launch: its flags, the program, its arguments
};

// What follows "ddp-launch" to run the program with so many ranks.
[[nodiscard]] std::vector<std::string> launch_arguments(int ranks, const Options& options);

// Throws launcher::LaunchError if the command line is wrong.
[[nodiscard]] Options parse_options(const std::vector<std::string>& args);

[[nodiscard]] std::string help_text();

}  // namespace ddp::prove
