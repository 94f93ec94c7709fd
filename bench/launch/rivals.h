// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace ddp::bench {

// A launcher in front of a command line.
struct Launcher {
  std::string name;
  std::vector<std::string> (*command)(const std::string& bin, int workers);
  int most_workers;      // with which a benchmark ends in reasonable time
  bool forwards_output;  // through its own process, not through files
};

// ddp-launch, and mpirun and torchrun if they work here.
[[nodiscard]] std::vector<Launcher> launchers(const std::string& bin);

[[nodiscard]] std::vector<std::string> join(std::vector<std::string> launcher,
                                            const std::vector<std::string>& program);

}  // namespace ddp::bench
