// SPDX-License-Identifier: MIT
#include "launcher/options/flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "ddp/base/edit_distance.h"

namespace ddp::launcher {
namespace {

// One argument, split into flag and value: "--grace=1" or "-n4".
struct Argument {
  const Flag* flag;
  std::optional<std::string> value;
};

[[noreturn]] void refuse_unknown(const std::string& argument, std::string_view name) {
  const Flag* nearest = nearest_flag(name);
  throw UnknownFlag(
      name, nearest == nullptr
                ? fmt::format("unknown flag '{}' (--help lists the flags)", argument)
                : fmt::format("unknown flag '{}'; did you mean --{}?", argument, nearest->name));
}

std::vector<const Flag*> flags_that_begin_with(std::string_view name) {
  std::vector<const Flag*> flags;
  for (const Flag& flag : all_flags()) {
    if (flag.name == name) return {&flag};
    if (std::string_view(flag.name).starts_with(name)) flags.push_back(&flag);
  }
  return flags;
}

const Flag* find_long(const std::string& argument, std::string_view name) {
  const std::vector<const Flag*> flags = flags_that_begin_with(name);
  if (flags.empty() || name.empty()) refuse_unknown(argument, name);
  if (flags.size() == 1) return flags.front();
  std::string names;
  for (const Flag* flag : flags)
    names += fmt::format("{}--{}", names.empty() ? "" : ", ", flag->name);
  throw LaunchError(fmt::format("'{}' is ambiguous: it may mean {}", argument, names));
}

Argument parse_long(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::replace(name.begin(), name.end(), '-', '_');
  const Flag* flag = find_long(argument, name);
  if (equals == std::string::npos) return {flag, std::nullopt};
  return {flag, argument.substr(equals + 1)};
}

Argument parse_short(const std::string& argument) {
  if (argument == "-np") return parse_short("-n");  // as mpirun has it
  const auto flag = std::ranges::find(all_flags(), argument[1], &Flag::short_name);
  if (flag == all_flags().end()) refuse_unknown(argument, argument.substr(1));
  if (argument.size() == 2) return {&*flag, std::nullopt};
  // "-vn" is not a bundle of switches; bundles are not supported.
  if (!flag->takes_value()) refuse_unknown(argument, argument.substr(1));
  return {&*flag, argument.substr(argument[2] == '=' ? 3 : 2)};
}

Argument parse(const std::string& argument) {
  return argument[1] == '-' ? parse_long(argument) : parse_short(argument);
}

bool is_flag(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

// True of ambiguous abbreviations, too, and of "--".
bool is_known_flag(const std::string& argument) {
  if (!is_flag(argument)) return false;
  if (argument == "--") return true;
  try {
    static_cast<void>(parse(argument));
  } catch (const UnknownFlag&) {
    return false;
  } catch (const LaunchError&) {  // ambiguous
  }
  return true;
}

// The flag at args[next], and its value. Moves `next` past them.
GivenFlag take_flag(std::span<const std::string> args, std::size_t& next) {
  const std::string& argument = args[next++];
  const Argument parsed = parse(argument);
  const Flag& flag = *parsed.flag;
  const std::string name = std::string("--") + flag.name;
  if (!flag.takes_value()) {
    if (!parsed.value) return {flag, {name, "1"}};
    throw LaunchError(fmt::format("{} takes no value (got '{}')", name, *parsed.value));
  }
  if (parsed.value) return {flag, {name, *parsed.value}};
  const std::string lack = fmt::format("{} needs a value ({})", name, flag.value_name);
  if (next == args.size()) throw LaunchError(lack);
  if (is_known_flag(args[next])) {
    throw LaunchError(fmt::format("{}, but '{}' follows", lack, args[next]));
  }
  return {flag, {name, args[next++]}};
}

}  // namespace

const Flag* nearest_flag(std::string_view name) {
  const auto distance = [name](const Flag& flag) { return edit_distance(name, flag.name); };
  const Flag* nearest = &*std::ranges::min_element(all_flags(), {}, distance);
  if (2 * distance(*nearest) <= name.size()) return nearest;
  if (name.size() < 3) return nullptr;
  const std::vector<const Flag*> begun = flags_that_begin_with(name.substr(0, name.size() - 1));
  return begun.size() == 1 ? begun.front() : nullptr;
}

CommandLine cut_at_program(std::span<const std::string> args) {
  CommandLine result;
  std::size_t next = 0;
  while (next < args.size() && is_flag(args[next])) {
    if (args[next] == "--") {
      ++next;
      break;
    }
    result.flags.push_back(take_flag(args, next));
  }
  result.command.assign(args.begin() + static_cast<std::ptrdiff_t>(next), args.end());
  return result;
}

}  // namespace ddp::launcher
