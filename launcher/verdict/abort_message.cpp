// SPDX-License-Identifier: MIT
#include "launcher/verdict/abort_message.h"

#include <optional>
#include <string_view>

namespace ddp::launcher {
namespace {

constexpr std::string_view kThrown = "terminate called after throwing an instance of '";  // GCC
constexpr std::string_view kWhat = "  what():  ";
constexpr std::string_view kUncaught = "uncaught exception of type ";  // libc++, in one line

std::optional<std::string> after(std::string_view line, std::string_view mark) {
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(at + mark.size()));
}

bool is_assertion(std::string_view line) {
  return line.find(": Assertion `") != std::string_view::npos && line.ends_with("' failed.");
}

}  // namespace

std::string abort_message(std::span<const std::string> last_lines) {
  std::string message;
  for (const std::string& line : last_lines) {
    if (const auto type = after(line, kThrown)) {
      message = type->substr(0, type->rfind('\''));
    } else if (const auto what = after(line, kWhat); what && !message.empty()) {
      message += ": " + *what;
    } else if (const auto uncaught = after(line, kUncaught)) {
      message = *uncaught;
    } else if (is_assertion(line)) {
      message = line;
    }
  }
  return message;
}

}  // namespace ddp::launcher
