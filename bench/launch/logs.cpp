// SPDX-License-Identifier: MIT
#include <fmt/core.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "launch/command.h"
#include "launch/parts.h"
#include "launch/rivals.h"
#include "support/report.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

constexpr int kLinesPerWorker = 50000;
constexpr std::string_view kLine = "step 12345  loss 0.12345678  lr 0.00100000  1234 samples/s\n";

struct Case {
  std::string name;
  std::vector<std::string> command;
  int lines;
};

std::vector<Case> cases(const std::string& bin) {
  const std::string count = std::to_string(kLinesPerWorker);
  const std::string blocks =
      fmt::format("yes '{}' | head -n {}", kLine.substr(0, kLine.size() - 1), count);
  std::vector<Case> all;
  for (const int workers : {2, 8}) {
    for (const Launcher& launcher : launchers(bin)) {
      if (!launcher.forwards_output) continue;
      const std::vector<std::string> start = launcher.command(bin, workers);
      const std::string name = fmt::format("{} -n {}", launcher.name, workers);
      const int lines = workers * kLinesPerWorker;
      all.push_back({name + ", a write a line",
                     join(start, {bin + "/bench_launch", "--write-lines", count}), lines});
      all.push_back({name + ", in blocks", join(start, {"/bin/sh", "-c", blocks}), lines});
    }
  }
  return all;
}

double lines_per_second(const Case& each) {
  const CountedOutput output = run_counting_lines(each.command);
  if (output.lines != each.lines) {
    throw std::runtime_error(
        fmt::format("{}: {} lines came of {}", each.name, output.lines, each.lines));
  }
  return each.lines / (output.milliseconds / 1000);
}

}  // namespace

void write_lines(int count) {
  for (int i = 0; i < count; ++i) {
    if (::write(STDOUT_FILENO, kLine.data(), kLine.size()) < 0) return;
  }
}

void measure_logs(const std::string& bin, int rounds) {
  const std::vector<Case> all = cases(bin);
  std::vector<Variant> variants;
  for (const Case& each : all) {
    variants.push_back({each.name, [&] { return lines_per_second(each); }});
  }
  interleave(variants, rounds);
  fmt::print(
      "\n# Lines of {} bytes through a launcher to a reader on a pipe, {} a worker, from start to "
      "exit; {} interleaved runs; target for ddp-launch: 200000 lines/s\n",
      kLine.size(), kLinesPerWorker, rounds);
  const Table table({{"launcher", 36}, {"lines/s", 9}, {"+-", 4}});
  table.print_titles();
  for (const Variant& variant : variants) {
    const Summary rate = summarize(variant.samples);
    table.print_row({variant.name, fmt::format("{:.0f}", rate.median),
                     fmt::format("{:.0f}%", rate.spread_percent())});
  }
}

}  // namespace ddp::bench
