// SPDX-License-Identifier: MIT
#include "ddp/io/checkpoint_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/system/regular_file.h"
#include "ddp/io/atomic_file.h"

namespace ddp {
namespace {

constexpr std::string_view kPrefix = "model_epoch_";
constexpr std::string_view kStepMark = "_step_";
constexpr std::string_view kSuffix = ".safetensors";

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

bool take(std::string_view& text, std::int64_t& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return true;
}

// A list is much shorter than this; a longer file is not a list.
constexpr std::size_t kLongestList = std::size_t{1} << 20;

std::string read_list(const std::filesystem::path& path) try {
  RegularFile file(path);
  std::string text;
  for (std::array<char, 4096> piece;;) {
    const std::size_t got = file.read(piece.data(), piece.size());
    text.append(piece.data(), got);
    if (got < piece.size() || text.size() > kLongestList) return text;
  }
} catch (const Error&) {
  std::throw_with_nested(FileError(path.string()));
}

// Without what editors add: a byte order mark, spaces, and Windows' ends of lines.
std::string_view without_additions(std::string_view line) {
  (void)take(line, "\xef\xbb\xbf");
  constexpr std::string_view kSpaces = " \t\r\v\f";
  const std::size_t first = std::min(line.find_first_not_of(kSpaces), line.size());
  line.remove_prefix(first);
  return line.substr(0, line.find_last_not_of(kSpaces) + 1);
}

struct ParsedList {
  std::vector<CheckpointName> names;
  std::string strange;  // the first line that is no checkpoint's name, and not empty
};

// Returns nothing if no line is a checkpoint's name, or if two are the same: one of them was
// another name then, and a file that is kept would be removed as an old one.
std::optional<ParsedList> parse_list(std::string text) {
  if (text.size() > kLongestList) return std::nullopt;
  std::istringstream lines(std::move(text));
  ParsedList list;
  std::set<CheckpointName> seen;
  for (std::string whole; std::getline(lines, whole);) {
    const std::string_view line = without_additions(whole);
    const auto name = parse_checkpoint_name(line);
    if (name && !seen.insert(*name).second) return std::nullopt;
    if (name) list.names.push_back(*name);
    if (!name && !line.empty() && list.strange.empty()) list.strange = line;
  }
  if (list.names.empty()) return std::nullopt;
  return list;
}

// The names of the files there are no substitute: the newest may be of a branch that was given up.
void warn_of_line(const std::filesystem::path& list, std::string_view line) {
  constexpr std::size_t kLongest = 80;
  std::string shown(line.substr(0, kLongest));
  std::ranges::replace_if(
      shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  logging::warning("[checkpoint] " + list.string() + ": \"" + shown +
                   "\" is no name of a checkpoint; using the other lines");
}

std::vector<CheckpointName> find_checkpoints(const std::filesystem::path& directory) {
  std::vector<CheckpointName> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (const auto name = parse_checkpoint_name(entry.path().filename().string())) {
      names.push_back(*name);
    }
  }
  std::sort(names.begin(), names.end(), std::greater<>());
  return names;
}

}  // namespace

std::string to_string(const CheckpointName& name) {
  const std::string step = name.step ? fmt::format("{}{}", kStepMark, *name.step) : "";
  return fmt::format("{}{}{}{}", kPrefix, name.epochs, step, kSuffix);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  const std::string_view whole = text;
  CheckpointName name;
  if (!take(text, kPrefix) || !take(text, name.epochs)) return std::nullopt;
  if (take(text, kStepMark) && !take(text, name.step.emplace())) return std::nullopt;
  if (text != kSuffix || to_string(name) != whole) return std::nullopt;  // "model_epoch_007"
  return name;
}

std::vector<CheckpointName> read_checkpoint_list(const std::filesystem::path& directory) {
  const std::filesystem::path latest = directory / kCheckpointListName;
  try {
    if (!std::filesystem::exists(latest)) return find_checkpoints(directory);
    if (auto list = parse_list(read_list(latest))) {
      if (!list->strange.empty()) warn_of_line(latest, list->strange);
      return std::move(list->names);
    }
    logging::warning("[checkpoint] " + latest.string() +
                     " is not a list of checkpoints: using the names of the files there instead");
    return find_checkpoints(directory);
  } catch (const std::exception&) {
    std::throw_with_nested(FileError("[checkpoint] cannot read " + directory.string()));
  }
}

void write_checkpoint_list(const std::filesystem::path& directory,
                           const std::vector<CheckpointName>& names) {
  std::string text;
  for (const CheckpointName& name : names) text += to_string(name) + "\n";
  const std::filesystem::path latest = directory / kCheckpointListName;
  // A link is often one that a user made to a checkpoint, which must not be replaced by the list.
  std::error_code ignored;
  if (std::filesystem::is_symlink(latest, ignored)) std::filesystem::remove(latest, ignored);
  AtomicFile file(latest);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace ddp
