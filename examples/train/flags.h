// SPDX-License-Identifier: MIT
#pragma once

#include <cxxopts.hpp>
#include <string>

namespace train {

// The flags, with their defaults and their texts in --help.
[[nodiscard]] cxxopts::Options make_flags();

[[nodiscard]] std::string help_text(const cxxopts::Options& flags);

}  // namespace train
