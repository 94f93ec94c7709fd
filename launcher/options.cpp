// SPDX-License-Identifier: MIT
#include "launcher/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cxxopts.hpp>
#include <limits>
#include <string_view>

#include "launcher/flags.h"
#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

cxxopts::Options make_parser() {
  cxxopts::Options parser("ddp-launch",
                          "Starts one worker process per GPU (or per CPU), watches them, and says "
                          "what went wrong.\n");
  parser.custom_help("[flags] [--] PROGRAM [args...]");
  parser.set_width(100);
  for (const Flag& flag : all_flags()) {
    const std::string prefix = flag.short_name == '\0' ? "" : std::string(1, flag.short_name) + ",";
    if (flag.takes_value()) {
      auto value = cxxopts::value<std::string>();
      if (flag.default_value != nullptr) value->default_value(flag.default_value);
      parser.add_options()(prefix + flag.name, flag.help, value, flag.value_name);
    } else {
      parser.add_options()(prefix + flag.name, flag.help);
    }
  }
  return parser;
}

cxxopts::ParseResult parse_flags(const std::vector<std::string>& flags) {
  std::vector<const char*> argv = {"ddp-launch"};
  for (const std::string& flag : flags) argv.push_back(flag.c_str());
  try {
    return make_parser().parse(static_cast<int>(argv.size()), argv.data());
  } catch (const cxxopts::exceptions::exception& error) {
    throw LaunchError(error.what());
  }
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

WorkerRequest parse_workers(const std::string& text) {
  using Kind = WorkerRequest::Kind;
  if (text == "auto") return {Kind::kAuto, 0};
  if (text == "gpu") return {Kind::kGpu, 0};
  if (text == "cpu") return {Kind::kCpu, 0};
  const auto number = parse_number<int>(text);
  if (!number || *number < 1) {
    throw LaunchError(fmt::format(
        "--nproc_per_node={}: expected a number of at least 1, auto, gpu or cpu", text));
  }
  return {Kind::kNumber, *number};
}

std::uint16_t parse_port(const std::string& text) {
  const auto port = parse_number<std::uint16_t>(text);
  if (!port) throw LaunchError(fmt::format("--master_port={}: expected 0 to 65535", text));
  return *port;
}

Show parse_show(const std::string& text) {
  if (text == "all") return {Show::Kind::kAll, {}};
  Show show{Show::Kind::kListed, {}};
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto rank = parse_number<int>(rest.substr(0, comma));
    if (!rank || *rank < 0) {
      throw LaunchError(fmt::format("--show={}: expected all, or ranks such as 0 or 1,3", text));
    }
    show.ranks.push_back(*rank);
    if (comma == std::string_view::npos) return show;
    rest.remove_prefix(comma + 1);
  }
}

Timeout parse_grace(const std::string& text) {
  const auto seconds = parse_number<double>(text);
  // A day bounds the conversion below; whoever needs more patience has another problem.
  if (!seconds || !(*seconds >= 0) || *seconds > 86400) {
    throw LaunchError(fmt::format("--grace={}: expected seconds between 0 and 86400", text));
  }
  return Timeout(static_cast<Timeout::rep>(std::llround(*seconds * 1000)));
}

}  // namespace

bool Show::shows_stdout(int rank) const {
  return kind == Kind::kDefault ? rank == 0 : shows_stderr(rank);
}

bool Show::shows_stderr(int rank) const {
  return kind != Kind::kListed || std::ranges::find(ranks, rank) != ranks.end();
}

Options parse_options(std::span<const std::string> args) {
  CommandLine line = cut_at_program(args);
  const cxxopts::ParseResult flags = parse_flags(line.flags);
  Options options;
  if (flags.count("help") > 0) options.action = Options::Action::kPrintHelp;
  if (flags.count("version") > 0) options.action = Options::Action::kPrintVersion;
  options.workers = parse_workers(flags["nproc_per_node"].as<std::string>());
  options.master_addr = flags["master_addr"].as<std::string>();
  options.master_port = parse_port(flags["master_port"].as<std::string>());
  if (flags.count("show") > 0) options.show = parse_show(flags["show"].as<std::string>());
  if (flags.count("grace") > 0) options.grace = parse_grace(flags["grace"].as<std::string>());
  options.detach = flags.count("detach") > 0;
  options.oversubscribe = flags.count("oversubscribe") > 0;
  options.verbose = flags.count("verbose") > 0;
  options.command = std::move(line.command);
  if (options.action == Options::Action::kRun && options.command.empty()) {
    throw LaunchError("no PROGRAM given; usage: ddp-launch [flags] [--] PROGRAM [args...]");
  }
  return options;
}

std::string help_text() { return make_parser().help(); }

}  // namespace ddp::launcher
