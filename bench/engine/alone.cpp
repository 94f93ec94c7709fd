// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ddp/base/system/cpu_count.h"
#include "ddp/ddp.h"
#include "engine/parts.h"
#include "support/pinning.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"
#include "support/training.h"

namespace ddp::bench {
namespace {

// A sample is the fastest of kSteps steps, which excludes most interruptions by other work.
constexpr int kSteps = 3;

template <class Step>
double milliseconds_of(const Step& step) {
  double fastest = duration_of<std::chrono::milliseconds>(step);
  for (int i = 1; i < kSteps; ++i) {
    fastest = std::min(fastest, duration_of<std::chrono::milliseconds>(step));
  }
  return fastest;
}

// The typical number of microseconds by which a round's second sample is longer than its first.
double typical_difference(const std::vector<double>& first, const std::vector<double>& second) {
  std::vector<double> differences(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) differences[i] = 1000 * (second[i] - first[i]);
  return summarize(std::move(differences)).median;
}

std::string with_spread(const Summary& summary) {
  return fmt::format("{:.4f} {:3.0f}%", summary.median, summary.spread_percent());
}

void measure(const Table& table, const Workload& workload, int rounds) {
  const auto group = init_process_group({.device = DeviceChoice::kCpu});
  Training training(workload, group);
  const auto plain_step = [&] { return milliseconds_of([&] { training.step_without_engine(); }); };
  std::vector<Variant> variants{
      {"plain", plain_step},
      {"plain again", plain_step},
      {"engine", [&] { return milliseconds_of([&] { training.step(); }); }}};
  interleave(variants, rounds);
  const std::vector<double>& plain = variants[0].samples;
  table.print_row({workload.model, std::to_string(workload.batch), with_spread(summarize(plain)),
                   with_spread(ratio(variants[1].samples, plain)),
                   with_spread(ratio(variants[2].samples, plain)),
                   fmt::format("{:.1f}", typical_difference(plain, variants[2].samples))});
}

}  // namespace

void measure_alone(int rounds) {
  const Pinned pinned(affinity_cpus().front());
  fmt::print(
      "\n# A training step in a world of one over the same without the engine, on the same memory; "
      "float32, one thread, medians of {} interleaved samples, each the fastest of {} steps. "
      "Promised: 1.002\n",
      rounds, kSteps);
  const Table table({{"model", 7},
                     {"batch", 6},
                     {"plain, ms", 12},
                     {"plain/plain", 12},
                     {"engine/plain", 12},
                     {"engine - plain, us", 18}});
  table.print_titles();
  for (const std::size_t batch : {64, 256}) {
    for (const char* model : {"mlp", "lenet5"}) measure(table, {model, batch}, rounds);
  }
}

}  // namespace ddp::bench
