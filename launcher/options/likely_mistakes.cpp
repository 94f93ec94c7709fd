// SPDX-License-Identifier: MIT
#include "launcher/options/likely_mistakes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "ddp/base/edit_distance.h"
#include "launcher/options/flags.h"
#include "launcher/options/given_flags.h"

namespace ddp::launcher {
namespace {

// Those that users set; docs/environment.md has all.
constexpr std::array kVariables = std::to_array<std::string_view>(
    {"DDP_LOG_LEVEL", "DDP_TIMEOUT", "DDP_START_TIMEOUT", "DDP_CHECK", "DDP_NCCL_REGISTER",
     "DDP_FASHION_MNIST", "DDP_EVENTS_FILE"});

std::string remark(std::string_view name, std::string_view meant) {
  return fmt::format("nothing reads the variable {}; did you mean {}?", name, meant);
}

// More than that apart, another program's variable is more likely.
constexpr std::size_t kFurthest = 2;

std::string remark_on_own(std::string_view name) {
  const auto distance = [&](std::string_view known) { return edit_distance(name, known); };
  const std::string_view nearest = *std::ranges::min_element(kVariables, {}, distance);
  const std::size_t far = distance(nearest);
  return far == 0 || far > kFurthest ? "" : remark(name, nearest);
}

std::string remark_on_flag(std::string_view name) {
  std::string flag(name.substr(4));
  for (char& c : flag) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const Flag* nearest = nearest_flag(flag);
  return nearest == nullptr || nearest->name == flag ? "" : remark(name, variable_of(*nearest));
}

}  // namespace

std::vector<std::string> remarks_on_variables(std::span<const std::string> environment) {
  std::vector<std::string> remarks;
  for (const std::string_view entry : environment) {
    const std::string_view name = entry.substr(0, entry.find('='));
    std::string text;
    if (name.starts_with("DDP_")) text = remark_on_own(name);
    if (name.starts_with("PET_")) text = remark_on_flag(name);
    if (!text.empty()) remarks.push_back(text);
  }
  return remarks;
}

std::string remark_on_flag_behind_program(const Options& options) {
  const bool is_one = options.workers.kind == WorkerRequest::Kind::kNumber &&
                      options.workers.number == 1 && options.nodes.count == 1;
  const std::vector<std::string>& command = options.program.command;
  if (!is_one || command.size() < 2) return "";
  const std::string& first = command[1];
  const bool is_short =
      first == "-n" && command.size() > 2 &&
      std::ranges::all_of(command[2], [](char c) { return '0' <= c && c <= '9'; });
  const bool asks_for_more =
      is_short || first.starts_with("--nproc_per_node") || first.starts_with("--nproc-per-node");
  if (!asks_for_more) return "";
  return fmt::format(
      "one worker starts, and {} is {}'s own flag; ddp-launch's flags stand before the program",
      first, command[0]);
}

}  // namespace ddp::launcher
