// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "ddp/base/error.h"
#include "launch/command.h"
#include "launch/parts.h"
#include "launch/rivals.h"
#include "support/report.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

struct Case {
  std::string name;
  std::vector<std::string> command;
  std::optional<double> target_ms = std::nullopt;
};

std::optional<double> target_of(const Launcher& launcher, int workers) {
  if (launcher.name != "ddp-launch") return std::nullopt;
  if (workers == 2) return 20;
  if (workers == 128) return 500;
  return std::nullopt;
}

std::vector<Case> cases(const std::string& bin) {
  std::vector<Case> all = {{"true", {"/bin/true"}}};
  for (const int workers : {2, 8, 32, 128}) {
    for (const Launcher& launcher : launchers(bin)) {
      if (workers > launcher.most_workers) continue;
      all.push_back({fmt::format("{} -n {} true", launcher.name, workers),
                     join(launcher.command(bin, workers), {"/bin/true"}),
                     target_of(launcher, workers)});
    }
  }
  const std::string all_reduce = bin + "/all_reduce";
  if (std::filesystem::exists(all_reduce)) {
    all.push_back({"all_reduce", {all_reduce}});
    all.push_back({"ddp-launch -n 2 all_reduce", {bin + "/ddp-launch", "-n", "2", all_reduce}, 60});
  }
  return all;
}

// Retries a failed run, because some launchers do not always work; only the run that succeeds
// counts.
double milliseconds_of(const Case& each) {
  constexpr int kAttempts = 3;
  for (int attempt = 1; attempt < kAttempts; ++attempt) {
    try {
      return run_milliseconds(each.command);
    } catch (const Error& error) {
      fmt::print("# {}: {}; tried again\n", each.name, error.what());
    }
  }
  return run_milliseconds(each.command);
}

void print(const std::vector<Case>& all, const std::vector<Variant>& variants) {
  const Table table(
      {{"command", 26}, {"median(ms)", 10}, {"+-", 4}, {"best(ms)", 8}, {"target(ms)", 10}});
  table.print_titles();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<double>& samples = variants[i].samples;
    const Summary time = summarize(samples);
    table.print_row({variants[i].name, fmt::format("{:.1f}", time.median),
                     fmt::format("{:.0f}%", time.spread_percent()),
                     fmt::format("{:.1f}", *std::min_element(samples.begin(), samples.end())),
                     all[i].target_ms ? fmt::format("{:.0f}", *all[i].target_ms) : ""});
  }
}

}  // namespace

void measure_start(const std::string& bin, int rounds) {
  const std::vector<Case> all = cases(bin);
  std::vector<Variant> variants;
  for (const Case& each : all) {
    variants.push_back({each.name, [&] { return milliseconds_of(each); }});
  }
  interleave(variants, rounds);
  fmt::print("# Whole processes, start to exit; {} interleaved runs\n", rounds);
  print(all, variants);
}

}  // namespace ddp::bench
