// SPDX-License-Identifier: MIT
//
// Parses values of flags. A value that cannot be parsed is a LaunchError that names the flag or
// variable, the value, and what is expected.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/base/time.h"

namespace ddp::launcher {

struct FlagValue {
  std::string source;  // "--nnodes" or "PET_NNODES"
  std::string text;    // of a switch: "1" or "0"
};

// "--nnodes=x: expected EXPECTED".
[[noreturn]] void refuse_value(const FlagValue& value, std::string_view expected);

[[nodiscard]] bool to_bool(const FlagValue& value);
[[nodiscard]] int to_count(const FlagValue& value, int least,
                           int most = std::numeric_limits<int>::max());
[[nodiscard]] std::uint16_t to_port(const FlagValue& value);
// Up to a day, in milliseconds.
[[nodiscard]] Timeout to_seconds(const FlagValue& value);
// "1,3".
[[nodiscard]] std::vector<int> to_ranks(const FlagValue& value);
// Refuses an empty value.
[[nodiscard]] std::string to_text(const FlagValue& value, const char* expected);

// The index of the text among `words`; if it is none of them, the error lists them.
[[nodiscard]] std::size_t to_choice(const FlagValue& value,
                                    std::span<const std::string_view> words);

// The pieces between separators; if there is no separator, one piece, which may be empty.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

}  // namespace ddp::launcher
