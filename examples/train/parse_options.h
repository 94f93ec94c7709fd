// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "options.h"

namespace train {

// Returns nothing if --help was given and shown. Throws std::invalid_argument, in one line, for an
// unknown flag or value.
[[nodiscard]] std::optional<Options> parse_options(int argc, char** argv);

}  // namespace train
