// SPDX-License-Identifier: MIT
#pragma once

#include <cxxopts.hpp>
#include <string>

namespace train {

// The flags with their defaults and what --help says of them.
[[nodiscard]] cxxopts::Options make_flags();

[[nodiscard]] std::string help_text(const cxxopts::Options& flags);

}  // namespace train
