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
#include "support/device.h"
#include "support/program.h"
#include "support/report.h"

namespace {

using namespace ddp::bench;

struct Options {
  ddp::Device device;
  std::vector<std::string> names = {};  // empty: all parts
  std::string step_svg = {};
  std::optional<int> rounds = {};  // each part has its own default
};

std::vector<Part> parts_for(const Options& options) {
  if (options.device.is_cuda()) return device_parts(options.step_svg);
  return {{"host", measure_host_time, 300},
          {"alone", measure_alone, 500},
          {"checks", measure_checks, 1000},
          {"overlap", measure_overlap, 31},
          {"sweep", measure_bucket_sizes, 11}};
}

std::optional<Options> parse(int argc, char** argv) {
  cxxopts::Options parser("bench_engine", "What the engine costs and hides, on a simulated link");
  auto add = parser.add_options();
  add("device", "cpu or cuda, which prints a line of JSON a figure",
      cxxopts::value<std::string>()->default_value("cpu"));
  add("parts",
      "host, alone, checks, overlap, sweep; on cuda host, alone, work, overlap, gemm (default: "
      "all)",
      cxxopts::value<std::vector<std::string>>());
  add("rounds", "repeats of each part (default: its own)", cxxopts::value<int>());
  add("step-svg", "on cuda: draw an overlapped step", cxxopts::value<std::string>());
  const auto given = parse_command_line(std::move(parser), argc, argv);
  if (!given) return std::nullopt;
  Options options{.device = device_named((*given)["device"].as<std::string>())};
  if (given->count("parts") > 0) options.names = (*given)["parts"].as<std::vector<std::string>>();
  if (given->count("step-svg") > 0) options.step_svg = (*given)["step-svg"].as<std::string>();
  if (given->count("rounds") > 0) options.rounds = (*given)["rounds"].as<int>();
  return options;
}

const Part& part_named(const std::vector<Part>& parts, const std::string& name) {
  std::string known;
  for (const Part& part : parts) {
    if (name == part.name) return part;
    known += std::string(known.empty() ? "" : ", ") + part.name;
  }
  throw std::invalid_argument("--parts " + name + ": there are " + known);
}

void run(const Options& options) {
  const std::vector<Part> parts = parts_for(options);
  std::vector<Part> chosen;
  for (const std::string& name : options.names) chosen.push_back(part_named(parts, name));
  if (!options.device.is_cuda()) std::puts(header_line("bench_engine").c_str());
  for (const Part& part : chosen.empty() ? parts : chosen) {
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
