// SPDX-License-Identifier: MIT
#include "launcher/options/flag_value.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ddp/base/number_in.h"
#include "launcher/launch_error.h"

namespace ddp::launcher {

void refuse_value(const FlagValue& value, std::string_view expected) {
  throw LaunchError(fmt::format("{}={}: expected {}", value.source, value.text, expected));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    pieces.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

bool to_bool(const FlagValue& value) {
  const std::string_view text = value.text;
  if (text == "1" || text == "True" || text == "true") return true;
  if (text != "0" && text != "False" && text != "false") refuse_value(value, "0 or 1");
  return false;
}

int to_count(const FlagValue& value, int least, int most) {
  const auto count = number_in<int>(value.text);
  if (!count || *count < least || *count > most) {
    refuse_value(value, fmt::format("a number from {} to {}", least, most));
  }
  return *count;
}

std::uint16_t to_port(const FlagValue& value) {
  const auto port = number_in<std::uint16_t>(value.text);
  if (!port) refuse_value(value, "a port, 0 to 65535");
  return *port;
}

Timeout to_seconds(const FlagValue& value) {
  const auto seconds = number_in<double>(value.text);
  // A day keeps the conversion below in range.
  if (!seconds || !(*seconds >= 0) || *seconds > 86400) {
    refuse_value(value, "seconds between 0 and 86400");
  }
  return Timeout(static_cast<Timeout::rep>(std::llround(*seconds * 1000)));
}

std::vector<int> to_ranks(const FlagValue& value) {
  std::vector<int> ranks;
  for (const std::string& piece : split(value.text, ',')) {
    const auto rank = number_in<int>(piece);
    if (!rank || *rank < 0) refuse_value(value, "ranks such as 0 or 1,3");
    ranks.push_back(*rank);
  }
  return ranks;
}

std::string to_text(const FlagValue& value, const char* expected) {
  if (value.text.empty()) refuse_value(value, expected);
  return value.text;
}

std::size_t to_choice(const FlagValue& value, std::span<const std::string_view> words) {
  const auto word = std::ranges::find(words, value.text);
  if (word == words.end()) {
    refuse_value(value, fmt::format("{}", fmt::join(words, ", ")));
  }
  return static_cast<std::size_t>(word - words.begin());
}

}  // namespace ddp::launcher
