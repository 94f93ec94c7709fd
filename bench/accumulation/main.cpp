// SPDX-License-Identifier: MIT
//
// What accumulation gains on a slow link: samples per second of a real training on the CPU, by the
// number of passes in a step. The reductions take the time of a simulated link.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "support/blas.h"
#include "support/command_line.h"
#include "support/program.h"
#include "support/report.h"
#include "support/simulated_group.h"
#include "support/statistics.h"
#include "support/training.h"

namespace {

using namespace ddp::bench;

struct Options {
  Workload workload{.model = "mlp", .batch = 64};
  std::vector<int> passes = {1, 2, 5, 10, 20};
  int ranks = 2;
  double latency_us = 50;
  double gigabytes_per_second = 1;
  int rounds = 51;

  [[nodiscard]] SimulatedLink link() const {
    const std::chrono::duration<double, std::micro> latency(latency_us);
    return {.latency = std::chrono::duration_cast<std::chrono::nanoseconds>(latency),
            .bytes_per_second = 1e9 * gigabytes_per_second};
  }
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  CommandLine line("bench_accumulation",
                   "Samples a second by the passes that make a step, on a simulated link");
  line.add("model", "mlp or lenet5", options.workload.model);
  line.add("batch-size", "samples of a pass", options.workload.batch);
  line.add("passes", "passes per step; each is compared with the first", options.passes);
  line.add("ranks", "simulated ranks, of which only one runs", options.ranks);
  line.add("latency-us", "latency of an all_reduce", options.latency_us);
  line.add("bandwidth", "bandwidth of an all_reduce, GB/s", options.gigabytes_per_second);
  line.add("rounds", "interleaved repeats", options.rounds);
  return line.parse(argc, argv) ? std::optional(options) : std::nullopt;
}

struct Case {
  std::string name;
  int passes;
  std::shared_ptr<Training> training;
};

std::vector<Case> make_cases(const Options& options) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, int passes,
                       std::shared_ptr<ddp::ProcessGroup> group) {
    cases.push_back({name, passes, std::make_shared<Training>(options.workload, std::move(group))});
  };
  for (const int passes : options.passes) {
    add(std::to_string(passes), passes, make_simulated_group(options.link(), options.ranks));
  }
  add("alone", 1, ddp::init_process_group({.device = ddp::DeviceChoice::kCpu}));
  return cases;
}

// A sample is the seconds that `all_passes` passes take; each case can make that many in whole
// steps.
Variant variant(const Case& each, int all_passes) {
  return {each.name, [=] {
            return duration_of<std::chrono::seconds>([&] {
              for (int done = 0; done < all_passes; done += each.passes) {
                each.training->step(each.passes);
              }
            });
          }};
}

void print_header(const Options& options, int all_passes) {
  std::puts(header_line("bench_accumulation").c_str());
  fmt::print(
      "# {}, batch {} a pass, float32, one thread; rank 0 of {} on a simulated link of {} us and "
      "{} GB/s; medians of {} interleaved samples of {} passes; alone, nothing is sent\n",
      options.workload.model, options.workload.batch, options.ranks, options.latency_us,
      options.gigabytes_per_second, options.rounds, all_passes);
}

// The average number of bucket launches in a step.
double launches_per_step(Training& training) {
  const auto statistics = training.engine().statistics();
  return static_cast<double>(statistics.bucket_launches) / static_cast<double>(statistics.steps);
}

void print(const Options& options, const std::vector<Case>& cases,
           const std::vector<Variant>& variants, int all_passes) {
  const double samples = static_cast<double>(options.workload.batch) * all_passes * options.ranks;
  const Table table({{"passes", 6},
                     {"buckets sent/step", 17},
                     {"ms/pass", 7},
                     {"+-", 4},
                     {"samples/s", 9},
                     {"gain", 7},
                     {"+-", 4}});
  table.print_titles();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Summary time = summarize(variants[i].samples);
    const Summary gain = ratio(variants[0].samples, variants[i].samples);
    table.print_row({variants[i].name, fmt::format("{:.1f}", launches_per_step(*cases[i].training)),
                     fmt::format("{:.3f}", 1000 * time.median / all_passes),
                     fmt::format("{:.0f}%", time.spread_percent()),
                     fmt::format("{:.0f}", samples / time.median),
                     fmt::format("{:+.1f}%", 100 * (gain.median - 1)),
                     fmt::format("{:.0f}%", gain.spread_percent())});
  }
}

void run(const Options& options) {
  int all_passes = 1;
  for (const int passes : options.passes) all_passes = std::lcm(all_passes, passes);
  const std::vector<Case> cases = make_cases(options);
  std::vector<Variant> variants;
  for (const Case& each : cases) variants.push_back(variant(each, all_passes));
  print_header(options, all_passes);
  interleave(variants, options.rounds);
  print(options, cases, variants, all_passes);
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("bench_accumulation", [&] {
    use_one_blas_thread(argv);
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
