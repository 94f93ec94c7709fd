// SPDX-License-Identifier: MIT
#include "ddp/base/printable.h"

namespace ddp {
namespace {

constexpr std::size_t kLongestUtf8 = 4;
constexpr std::size_t kLongestName = 300;

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

constexpr char32_t kReplacement = 0xfffd;

struct Character {
  char32_t code = kReplacement;
  std::size_t bytes = 1;
};

// Of a text that is not empty. Neither overlong forms nor surrogates are characters.
Character first_of(std::string_view text) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // by the number of bytes
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc0 || lead > 0xf4 || text.size() < bytes) return {};
  char32_t code = lead & (0x7fU >> bytes);
  for (const char byte : text.substr(1, bytes - 1)) {
    if (!continues_character(byte)) return {};
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3fU);
  }
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[bytes] || code > 0x10ffff || is_surrogate) return {};
  return {code, bytes};
}

bool controls(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

// Text that is not UTF-8 is cut anywhere.
std::string_view utf8_beginning(std::string_view text, std::size_t longest) noexcept {
  if (text.size() <= longest) return text;
  for (std::size_t back = 0; back < kLongestUtf8 && back <= longest; ++back) {
    if (!continues_character(text[longest - back])) return text.substr(0, longest - back);
  }
  return text.substr(0, longest);
}

std::string shortened(std::string_view text, std::size_t longest) {
  std::string result(utf8_beginning(text, longest));
  return text.size() <= longest ? result : result + "...";
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Character next = first_of(text);
    if (next.code == kReplacement) {
      result += "\ufffd";
    } else if (controls(next.code)) {
      result += ' ';
    } else {
      result += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes);
  }
  return result;
}

std::string quoted_name(std::string_view name) {
  return "\"" + shortened(printable(name), kLongestName) + "\"";
}

}  // namespace ddp
