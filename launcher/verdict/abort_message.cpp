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

// For an exception without a what(), such as an int.
std::string threw(const std::string& type) { return "threw an exception of type " + type; }

bool is_assertion(std::string_view line) {
  return line.find(": Assertion `") != std::string_view::npos && line.ends_with("' failed.");
}

}  // namespace

std::string abort_message(std::span<const std::string> last_lines) {
  std::string message;
  std::string type;
  for (const std::string& line : last_lines) {
    if (const auto thrown = after(line, kThrown)) {
      type = thrown->substr(0, thrown->rfind('\''));
      message = threw(type);
    } else if (const auto what = after(line, kWhat); what && !type.empty()) {
      message = type + ": " + *what;
    } else if (const auto uncaught = after(line, kUncaught)) {
      const bool has_what = uncaught->find(": ") != std::string::npos;
      message = has_what ? *uncaught : threw(*uncaught);
    } else if (is_assertion(line)) {
      message = line;
    }
  }
  return message;
}

}  // namespace ddp::launcher
