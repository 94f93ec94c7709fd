// SPDX-License-Identifier: MIT
#include "launcher/options/given_flags.h"

#include <cctype>
#include <cxxopts.hpp>
#include <optional>
#include <ranges>

namespace ddp::launcher {
namespace {

constexpr const char* kAbout =
    "Starts one worker process per GPU (or per CPU), watches them, and says what went wrong:\n\n"
    "  ddp-launch -n 2 ./train --epochs 3\n\n"
    "Everything from PROGRAM on is passed to the workers. Flags may have '-' for '_' and may be\n"
    "abbreviated; the variable PET_<FLAG> sets a flag's default (PET_NNODES=2). The command lines\n"
    "of torchrun work, too: docs/launcher.md compares the flags one by one.\n";

// cxxopts, which formats the help, adds " options:".
const char* title_of(Flag::Group group) {
  switch (group) {
    case Flag::Group::kFrequent:
      return "Frequent";
    case Flag::Group::kTorchrun:
      return "Further torchrun";
    case Flag::Group::kOwn:
      return "Further";
    case Flag::Group::kRefused:
      break;
  }
  return "Refused";
}

cxxopts::Options help_formatter() {
  cxxopts::Options parser("ddp-launch", kAbout);
  parser.custom_help("[flags] [--] PROGRAM [args...]");
  parser.set_width(100);
  for (const Flag& flag : all_flags()) {
    const std::string prefix = flag.short_name == '\0' ? "" : std::string(1, flag.short_name) + ",";
    auto add = parser.add_options(title_of(flag.group));
    if (flag.takes_value()) {
      add(prefix + flag.name, flag.help, cxxopts::value<std::string>(), flag.value_name);
    } else {
      add(prefix + flag.name, flag.help);
    }
  }
  return parser;
}

std::optional<FlagValue> value_of(const Flag& flag, const std::vector<GivenFlag>& on_command_line,
                                  const WorkerEnv::Lookup& environment) {
  for (const GivenFlag& given : std::views::reverse(on_command_line)) {
    if (&given.flag == &flag) return given.value;
  }
  const std::string variable = variable_of(flag);
  const char* text = environment(variable.c_str());
  if (text == nullptr || *text == '\0') return std::nullopt;
  return FlagValue{variable, text};
}

}  // namespace

std::string variable_of(const Flag& flag) {
  std::string name = "PET_";
  for (const char* c = flag.name; *c != '\0'; ++c) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  }
  return name;
}

std::vector<GivenFlag> given_flags(const std::vector<GivenFlag>& on_command_line,
                                   const WorkerEnv::Lookup& environment) {
  std::vector<GivenFlag> given;
  for (const Flag& flag : all_flags()) {
    if (auto value = value_of(flag, on_command_line, environment)) given.push_back({flag, *value});
  }
  return given;
}

std::string help_text() {
  using enum Flag::Group;
  return help_formatter().help({title_of(kFrequent), title_of(kTorchrun), title_of(kOwn)});
}

}  // namespace ddp::launcher
