// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "options.h"

namespace train {

// Throws std::invalid_argument with the message unless the condition holds.
void require(bool condition, const std::string& message);

// Throws std::invalid_argument, in one line that names the flag, if a value is out of range or two
// flags contradict each other.
void check(const Options& options);

// The same for what depends on the number of ranks.
void check_for_ranks(const Options& options, int world_size);

}  // namespace train
