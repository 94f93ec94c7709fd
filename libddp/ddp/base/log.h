// SPDX-License-Identifier: MIT
//
// One line a call, to stderr, prefixed with "[rank k]" once the rank is known. The logger is made
// at first use and never destroyed, so threads may log while the process exits.
// Level: DDP_LOG_LEVEL = debug | info | warning (default) | error | off.
#pragma once

#include <string_view>

namespace ddp::log {

// Shown in every later line of this process; ranks that are threads share it.
void set_rank(int rank);

void debug(std::string_view message);
void info(std::string_view message);
void warning(std::string_view message);
void error(std::string_view message);

// True if debug lines are shown: for callers whose message is costly to build.
[[nodiscard]] bool debug_enabled();

}  // namespace ddp::log
