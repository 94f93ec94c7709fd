// SPDX-License-Identifier: MIT
#pragma once

#include <cxxopts.hpp>
#include <span>
#include <string>

namespace train {

// The flags, with their defaults and their texts in --help.
[[nodiscard]] cxxopts::Options make_flags();

[[nodiscard]] std::string help_text(const cxxopts::Options& flags);

// What is wrong with the first of the arguments that is no flag, and which one it may mean; empty
// if there is none. cxxopts only says that it does not exist.
[[nodiscard]] std::string complain_of_unknown(const cxxopts::Options& flags,
                                              std::span<char* const> arguments);

}  // namespace train
