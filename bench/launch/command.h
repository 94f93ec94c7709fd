// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace ddp::bench {

// Runs a command, found through PATH, to its end and returns the milliseconds that took, as its
// parent sees them. Standard output is thrown away. Throws ddp::Error unless it exits with 0.
[[nodiscard]] double run_milliseconds(const std::vector<std::string>& command);

// True if PATH, or the path itself, leads to a program.
[[nodiscard]] bool can_run(const std::string& program);

}  // namespace ddp::bench
