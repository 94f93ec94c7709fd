// SPDX-License-Identifier: MIT
//
// What the engine costs and hides, on a simulated link: host time of its calls, a step in a world
// of one, checks, overlap, and the time of a step by bucket size.
#include <cstdio>
#include <cxxopts.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/parts.h"
#include "support/blas.h"
#include "support/program.h"
#include "support/report.h"

namespace {

using namespace ddp::bench;

struct Options {
  std::vector<std::string> parts;
  std::optional<int> rounds;  // each part has its own default
};

struct Part {
  const char* name;
  void (*measure)(int rounds);
  int rounds;
};

constexpr Part kParts[] = {{"host", measure_host_time, 300},
                           {"alone", measure_alone, 500},
                           {"checks", measure_checks, 1000},
                           {"overlap", measure_overlap, 31},
                           {"sweep", measure_bucket_sizes, 11}};

std::optional<Options> parse(int argc, char** argv) {
  cxxopts::Options parser("bench_engine", "What the engine costs and hides, on a simulated link");
  auto add = parser.add_options();
  add("parts", "host, alone, checks, overlap, sweep",
      cxxopts::value<std::vector<std::string>>()->default_value("host,alone,checks,overlap,sweep"));
  add("rounds", "repeats of each part (default: its own)", cxxopts::value<int>());
  const auto given = parse_command_line(std::move(parser), argc, argv);
  if (!given) return std::nullopt;
  Options options{.parts = (*given)["parts"].as<std::vector<std::string>>(), .rounds = {}};
  if (given->count("rounds") > 0) options.rounds = (*given)["rounds"].as<int>();
  return options;
}

const Part& part_named(const std::string& name) {
  for (const Part& part : kParts) {
    if (name == part.name) return part;
  }
  throw std::invalid_argument("--parts " + name +
                              ": there are host, alone, checks, overlap and sweep");
}

void run(const Options& options) {
  std::puts(header_line("bench_engine").c_str());
  for (const std::string& name : options.parts) {
    const Part& part = part_named(name);
    part.measure(options.rounds.value_or(part.rounds));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_engine", [&] {
    use_one_blas_thread(argv);
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
