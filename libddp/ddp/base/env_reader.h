// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "ddp/base/time.h"

namespace ddp {

// Environment variables as text and numbers. An empty one counts as unset, as in PyTorch.
class EnvReader {
 public:
  // The value of a name, or null.
  using Lookup = std::function<const char*(const char*)>;

  explicit EnvReader(Lookup lookup) : lookup_(std::move(lookup)) {}

  [[nodiscard]] bool has(const char* name) const { return text(name).has_value(); }
  [[nodiscard]] std::optional<std::string> text(const char* name) const;

  // Throw EnvironmentError naming variable and value.
  [[nodiscard]] std::optional<int> integer(const char* name, int minimum) const;
  [[nodiscard]] std::optional<std::uint32_t> identifier(const char* name) const;  // 32 bits
  [[nodiscard]] std::optional<std::uint16_t> port(const char* name) const;
  // "2.5"; above 0, at most a year.
  [[nodiscard]] std::optional<Timeout> seconds(const char* name) const;

  // "True", "true" and "1" are true, anything else is not.
  [[nodiscard]] bool flag(const char* name) const;

 private:
  Lookup lookup_;
};

}  // namespace ddp
