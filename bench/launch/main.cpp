// SPDX-License-Identifier: MIT
//
// What a launcher costs: to start and end jobs, to watch them, and to forward their output; beside
// mpirun and torchrun where they are installed.
#include <cstdio>
#include <cxxopts.hpp>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "launch/parts.h"
#include "support/program.h"
#include "support/report.h"

namespace {

using namespace ddp::bench;

struct Options {
  std::vector<std::string> parts;
  std::optional<int> rounds;  // each part has its own default
  std::string bin;            // where ddp-launch and the examples are
  int lines_to_write = 0;     // as a worker of this program
};

struct Part {
  const char* name;
  void (*measure)(const std::string& bin, int rounds);
  int rounds;
};

constexpr Part kParts[] = {
    {"start", measure_start, 15}, {"watching", measure_watching, 3}, {"logs", measure_logs, 7}};

std::string own_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

std::optional<Options> parse(int argc, char** argv) {
  cxxopts::Options parser("bench_launch", "What a launcher costs: start, watching, logs");
  auto add = parser.add_options();
  add("parts", "start, watching, logs",
      cxxopts::value<std::vector<std::string>>()->default_value("start,watching,logs"));
  add("rounds", "repeats of each part (default: its own)", cxxopts::value<int>());
  add("bin", "folder of ddp-launch and the examples (default: this program's)",
      cxxopts::value<std::string>(), "DIR");
  add("write-lines", "be a worker that writes so many lines",
      cxxopts::value<int>()->default_value("0"));
  const auto given = parse_command_line(std::move(parser), argc, argv);
  if (!given) return std::nullopt;
  Options options{.parts = (*given)["parts"].as<std::vector<std::string>>(),
                  .rounds = {},
                  .bin = given->count("bin") > 0 ? (*given)["bin"].as<std::string>() : own_folder(),
                  .lines_to_write = (*given)["write-lines"].as<int>()};
  if (given->count("rounds") > 0) options.rounds = (*given)["rounds"].as<int>();
  return options;
}

const Part& part_named(const std::string& name) {
  for (const Part& part : kParts) {
    if (name == part.name) return part;
  }
  throw std::invalid_argument("--parts " + name + ": there are start, watching and logs");
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
