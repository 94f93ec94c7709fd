// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "ddp/base/error.h"

namespace ddp {

// What add() does to a stored value, as PyTorch's server does it: decimal text, read as std::stoll
// reads it (leading blanks and trailing characters pass), and the sum wraps. Throws NetworkError if
// the text is not a number.
inline std::int64_t add_to_text(std::string& text, std::int64_t delta) {
  std::int64_t value = 0;
  try {
    value = std::stoll(text);
  } catch (const std::logic_error&) {  // std::invalid_argument or std::out_of_range
    throw NetworkError("cannot add to a value that is not a number");
  }
  const auto sum = static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(delta);
  value = static_cast<std::int64_t>(sum);
  text = std::to_string(value);
  return value;
}

}  // namespace ddp
