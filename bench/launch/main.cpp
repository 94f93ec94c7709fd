// SPDX-License-Identifier: MIT
//
// What a launcher costs: to start and end jobs, to watch them, and to forward their output;
// compared with mpirun and torchrun where they are installed.
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "launch/parts.h"
#include "support/command_line.h"
#include "support/program.h"
#include "support/report.h"

namespace {

using namespace ddp::bench;

std::string own_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

struct Options {
  std::vector<std::string> parts = {"start", "watching", "logs"};
  std::optional<int> rounds = {};  // each part has its own default
  std::string bin = own_folder();  // where ddp-launch and the examples are
  int lines_to_write = 0;          // set for workers that this program starts
};

struct Part {
  const char* name;
  void (*measure)(const std::string& bin, int rounds);
  int rounds;
};

constexpr Part kParts[] = {
    {"start", measure_start, 15}, {"watching", measure_watching, 3}, {"logs", measure_logs, 7}};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  CommandLine line("bench_launch", "What a launcher costs: start, watching, logs");
  line.add("parts", "start, watching, logs", options.parts);
  line.add("rounds", "repeats of each part (default: its own)", options.rounds);
  line.add("bin", "folder of ddp-launch and the examples", options.bin, "DIR");
  line.add("write-lines", "run as a worker that writes this many lines", options.lines_to_write);
  return line.parse(argc, argv) ? std::optional(options) : std::nullopt;
}

const Part& part_named(const std::string& name) {
  for (const Part& part : kParts) {
    if (name == part.name) return part;
  }
  throw std::invalid_argument("--parts " + name + ": the parts are start, watching and logs");
}

void run(const Options& options) {
  if (options.lines_to_write > 0) return write_lines(options.lines_to_write);
  std::puts(header_line("bench_launch").c_str());
  std::puts("# Medians; +- is half the interquartile range");
  std::fflush(stdout);
  for (const std::string& name : options.parts) {
    const Part& part = part_named(name);
    part.measure(options.bin, options.rounds.value_or(part.rounds));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_launch", [&] {
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
