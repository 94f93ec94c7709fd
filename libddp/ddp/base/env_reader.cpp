// SPDX-License-Identifier: MIT
#include "ddp/base/env_reader.h"

#include "ddp/base/error.h"
#include "ddp/base/number_in.h"

namespace ddp {

std::optional<std::string> EnvReader::text(const char* name) const {
  const char* value = lookup_(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<int> EnvReader::integer(const char* name, int minimum) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto number = number_in<int>(*value);
  if (!number || *number < minimum) {
    throw EnvironmentError(std::string(name) + "='" + *value + "' is not an integer of at least " +
                           std::to_string(minimum));
  }
  return number;
}

std::optional<std::uint32_t> EnvReader::identifier(const char* name) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto number = number_in<std::uint32_t>(*value);
  if (!number) throw EnvironmentError(std::string(name) + "='" + *value + "' is not a number");
  return number;
}

std::optional<std::uint16_t> EnvReader::port(const char* name) const {
  const auto number = integer(name, 1);
  if (!number) return std::nullopt;
  if (*number > 65535) {
    throw EnvironmentError(std::string(name) + "=" + std::to_string(*number) +
                           " is not a port (1 to 65535)");
  }
  return static_cast<std::uint16_t>(*number);
}

std::optional<Timeout> EnvReader::seconds(const char* name) const {
  constexpr std::chrono::duration<double> kMost = kLongestTimeout;
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto number = number_in<double>(*value);
  if (!number || !(*number > 0 && *number <= kMost.count())) {
    throw EnvironmentError(std::string(name) + "='" + *value +
                           "' is not a number of seconds that is above 0 and at most a year");
  }
  return std::chrono::ceil<Timeout>(std::chrono::duration<double>(*number));
}

bool EnvReader::flag(const char* name) const {
  const std::string value = text(name).value_or("False");
  if (value == "True" || value == "true" || value == "1") return true;
  if (value == "False" || value == "false" || value == "0") return false;
  throw EnvironmentError(std::string(name) + "='" + value +
                         "' is neither True (or 1) nor False (or 0)");
}

}  // namespace ddp
