// SPDX-License-Identifier: MIT
#pragma once

#include <charconv>
#include <cxxopts.hpp>
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
