// SPDX-License-Identifier: MIT
#include "launcher/flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

constexpr Flag kFlags[] = {
    {"nproc_per_node", 'n', "N|auto|gpu|cpu", "1",
     "workers to start; gpu: one per visible GPU, cpu: one per CPU, auto: gpu if there is one, "
     "else cpu"},
    {"master_addr", '\0', "ADDR", "127.0.0.1", "address at which the workers meet"},
    {"master_port", '\0', "PORT", "0", "port at which the workers meet; 0: a free one"},
    {"show", '\0', "0|all|1,3", nullptr,
     "ranks whose output is shown (default: stdout of rank 0, stderr of all)"},
    {"grace", '\0', "SECONDS", nullptr,
     "time to end in when asked to, before SIGKILL (default: 30; 3 after Ctrl-C; none after "
     "SIGUSR1)"},
    {"detach", '\0', nullptr, nullptr,
     "go on in the background, in a session of its own, with a log file"},
    {"oversubscribe", '\0', nullptr, nullptr,
     "let workers share GPUs: for correctness, not speed (sets NCCL_HOSTID and others)"},
    {"verbose", 'v', nullptr, nullptr, "say what is started"},
    {"version", '\0', nullptr, nullptr, "print the version"},
    {"help", 'h', nullptr, nullptr, "print this help"},
};

// One argument taken apart: "--grace=1" or "-n4".
struct Argument {
  const Flag* flag;
  std::optional<std::string> value;
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

[[noreturn]] void refuse_unknown(const std::string& argument, std::string_view name) {
  const Flag* nearest = nearest_flag(name);
  throw LaunchError(
      nearest == nullptr
          ? fmt::format("unknown flag '{}' (--help lists the flags)", argument)
          : fmt::format("unknown flag '{}'; did you mean --{}?", argument, nearest->name));
}

Argument parse_long(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::replace(name.begin(), name.end(), '-', '_');
  const auto flag =
      std::ranges::find(kFlags, name, [](const Flag& f) { return std::string(f.name); });
  if (flag == std::end(kFlags)) refuse_unknown(argument, name);
  if (equals == std::string::npos) return {flag, std::nullopt};
  return {flag, argument.substr(equals + 1)};
}

Argument parse_short(const std::string& argument) {
  const auto flag = std::ranges::find(kFlags, argument[1], &Flag::short_name);
  if (flag == std::end(kFlags)) refuse_unknown(argument, argument.substr(1));
  if (argument.size() == 2) return {flag, std::nullopt};
  // "-vn" is not a bundle of switches: none of ours are worth bundling.
  if (!flag->takes_value()) refuse_unknown(argument, argument.substr(1));
  return {flag, argument.substr(argument[2] == '=' ? 3 : 2)};
}

bool is_flag(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

// The flag at args[next], and its value, in normal form; moves `next` behind them.
std::string take_flag(std::span<const std::string> args, std::size_t& next) {
  const std::string& argument = args[next++];
  const Argument parsed = argument[1] == '-' ? parse_long(argument) : parse_short(argument);
  const Flag& flag = *parsed.flag;
  if (!flag.takes_value()) {
    if (!parsed.value) return fmt::format("--{}", flag.name);
    throw LaunchError(fmt::format("--{} takes no value (got '{}')", flag.name, *parsed.value));
  }
  if (parsed.value) return fmt::format("--{}={}", flag.name, *parsed.value);
  if (next < args.size()) return fmt::format("--{}={}", flag.name, args[next++]);
  throw LaunchError(fmt::format("--{} needs a value ({})", flag.name, flag.value_name));
}

}  // namespace

std::span<const Flag> all_flags() { return kFlags; }

const Flag* nearest_flag(std::string_view name) {
  const auto distance = [name](const Flag& flag) {
    return std::string_view(flag.name).starts_with(name) ? 0 : edit_distance(name, flag.name);
  };
  const Flag* nearest = &*std::ranges::min_element(kFlags, {}, distance);
  return 2 * distance(*nearest) <= name.size() ? nearest : nullptr;
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
