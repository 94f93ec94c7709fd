// SPDX-License-Identifier: MIT
#pragma once

#include <charconv>
#include <cstdio>
#include <cxxopts.hpp>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>

// The value of a flag whose type is std::string, as a number. Throws std::invalid_argument that
// names the flag if it is none; cxxopts names only the value.
template <class T>
[[nodiscard]] T number_flag(const cxxopts::ParseResult& parsed, const char* flag) {
  const auto digits = parsed[flag].as<std::string>();
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size()) return value;
  throw std::invalid_argument("--" + std::string(flag) + "=" + digits + " is not " +
                              (std::is_integral_v<T> ? "a whole number in range" : "a number"));
}

// For a tool with few flags, one of them --help: prints the help and returns nothing if that is
// asked for. Throws std::invalid_argument if a flag is unknown or wrong, if one of `needed` is
// missing or empty, as from an unset variable in a script, or if there are other arguments.
[[nodiscard]] inline std::optional<cxxopts::ParseResult> parse_flags(
    cxxopts::Options& flags, int argc, char** argv, std::initializer_list<const char*> needed) try {
  cxxopts::ParseResult parsed = flags.parse(argc, argv);
  if (parsed.count("help") > 0) {
    std::fputs(flags.help().c_str(), stdout);
    return std::nullopt;
  }
  for (const char* flag : needed) {
    const bool is_there = parsed.count(flag) > 0;
    if (is_there && !parsed[flag].as<std::string>().empty()) continue;
    throw std::invalid_argument("--" + std::string(flag) +
                                (is_there ? " is empty" : " is missing") +
                                " (--help lists the flags)");
  }
  if (parsed.unmatched().empty()) return parsed;
  throw std::invalid_argument("unexpected argument \"" + parsed.unmatched().front() +
                              "\" (a value with blanks needs quotes)");
} catch (const cxxopts::exceptions::exception& error) {
  throw std::invalid_argument(error.what());
}
