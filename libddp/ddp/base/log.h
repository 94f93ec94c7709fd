// SPDX-License-Identifier: MIT
//
// Each call writes one line to stderr, prefixed with "[rank k]" once the rank is known. The logger
// is created at first use and never destroyed, so that threads may log while the process exits.
// Level: DDP_LOG_LEVEL = debug | info | warning (default) | error | off.
#pragma once

#include <string_view>

namespace ddp::logging {

// Sets the rank in the prefix of all later lines of this process; ranks that are threads share it.
void set_rank(int rank);

void debug(std::string_view message);
void info(std::string_view message);
void warning(std::string_view message);
void error(std::string_view message);

}  // namespace ddp::logging
