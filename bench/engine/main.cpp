// SPDX-License-Identifier: MIT
//
// What the engine costs and hides on a simulated link: host time of its calls, a step in a world of
// one, checks, overlap, and the time of a step by bucket size.
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/parts.h"
#include "support/blas.h"
#include "support/command_line.h"
#include "support/device.h"
#include "support/program.h"
#include "support/report.h"

namespace {

using namespace ddp::bench;

struct Options {
  std::string device = "cpu";
  std::vector<std::string> names = {};  // empty: all parts
  std::optional<int> rounds = {};       // each part has its own default
  std::string step_svg = {};
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  CommandLine line("bench_engine", "What the engine costs and hides, on a simulated link");
  line.add("device", "cpu or cuda, which prints a line of JSON a figure", options.device);
  line.add("parts",
           "host, alone, checks, overlap, sweep; on cuda clock, host (under ddp-launch over NCCL), "
           "alone, work, overlap, gemm (default: all)",
           options.names);
  line.add("rounds", "repeats of each part (default: its own)", options.rounds);
  line.add("step-svg", "on cuda: draw an overlapped step", options.step_svg);
  return line.parse(argc, argv) ? std::optional(options) : std::nullopt;
}

std::vector<Part> parts_for(ddp::Device device, const std::string& step_svg) {
  if (device.is_cuda()) return device_parts(step_svg);
  return {{"host", measure_host_time, 300},
          {"alone", measure_alone, 500},
          {"checks", measure_checks, 1000},
          {"overlap", measure_overlap, 31},
          {"sweep", measure_bucket_sizes, 11}};
}

const Part& part_named(const std::vector<Part>& parts, const std::string& name) {
  std::string known;
  for (const Part& part : parts) {
    if (name == part.name) return part;
    known += std::string(known.empty() ? "" : ", ") + part.name;
  }
  throw std::invalid_argument("--parts " + name + ": the parts are " + known);
}

void run(const Options& options) {
  const ddp::Device device = device_named(options.device);
  const std::vector<Part> parts = parts_for(device, options.step_svg);
  std::vector<Part> chosen;
  for (const std::string& name : options.names) chosen.push_back(part_named(parts, name));
  if (!device.is_cuda()) std::puts(header_line("bench_engine").c_str());
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
