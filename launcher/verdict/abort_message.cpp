// SPDX-License-Identifier: MIT
#include "launcher/verdict/abort_message.h"

#include <algorithm>
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

// What the C library writes before it aborts; so an exception's text further up is not the reason.
bool is_of_c_library(std::string_view line) {
  constexpr std::string_view kBeginnings[] = {"terminate called without an active exception",
                                              "double free or corruption",
                                              "free(): ",
                                              "malloc(): ",
                                              "realloc(): ",
                                              "munmap_chunk(): ",
                                              "corrupted ",
                                              "*** stack smashing detected ***"};
  const auto begins = [line](std::string_view text) { return line.starts_with(text); };
  const bool is_assertion =
      line.find(": Assertion `") != std::string_view::npos && line.ends_with("' failed.");
  return is_assertion || std::ranges::any_of(kBeginnings, begins);
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
    } else if (is_of_c_library(line)) {
      message = line;
      type.clear();
    }
  }
  return message;
}

}  // namespace ddp::launcher
