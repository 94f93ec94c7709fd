// SPDX-License-Identifier: MIT
//
// Text from elsewhere (another process, a file, an exception) as part of our own messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp {

// The beginning of at most `longest` bytes that ends between two UTF-8 characters.
[[nodiscard]] std::string_view utf8_beginning(std::string_view text, std::size_t longest) noexcept;

// The text, or its beginning of at most `longest` bytes and "...".
[[nodiscard]] std::string shortened(std::string_view text, std::size_t longest);

// One line that cannot control a terminal: each control character (C0, DEL, C1) and each character
// that changes the direction of what follows (U+202A to U+202E, U+2066 to U+2069) is a blank, and
// each byte that is not UTF-8 is U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);

// A name from a file that may be damaged: printable, not long, and in quotes.
[[nodiscard]] std::string quoted_name(std::string_view name);

}  // namespace ddp
