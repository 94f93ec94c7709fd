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

}  // namespace train
