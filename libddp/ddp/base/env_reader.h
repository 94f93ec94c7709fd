// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "ddp/base/time.h"

namespace ddp {

// Reads environment variables as text and numbers. An empty one counts as unset, as in PyTorch.
class EnvReader {
 public:
  // Returns the value of a variable, or null if it is not set.
  using Lookup = std::function<const char*(const char*)>;

  explicit EnvReader(Lookup lookup) : lookup_(std::move(lookup)) {}

  [[nodiscard]] bool has(const char* name) const { return text(name).has_value(); }
  [[nodiscard]] std::optional<std::string> text(const char* name) const;

  // These return nothing if the variable is unset, and throw EnvironmentError with its name and
  // value if it cannot be parsed or is out of range.
  [[nodiscard]] std::optional<int> integer(const char* name, int minimum) const;
  [[nodiscard]] std::optional<std::uint32_t> identifier(const char* name) const;  // 32 bits
  [[nodiscard]] std::optional<std::uint16_t> port(const char* name) const;
  // A decimal number such as "2.5", above 0 and at most a year.
  [[nodiscard]] std::optional<Timeout> seconds(const char* name) const;

  // True for "True", "true" and "1"; false for "False", "false", "0" and an unset variable. Throws
  // EnvironmentError for other values, since "yes" would otherwise count as no.
  [[nodiscard]] bool flag(const char* name) const;

 private:
  Lookup lookup_;
};

}  // namespace ddp
