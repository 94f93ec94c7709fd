// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
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

// Evicts what the caches of a core hold, as a layer's kernels do.
void evict() {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  constexpr std::size_t kCacheLine = 64;
  static std::vector<std::uint8_t> memory(kBytes);
  for (std::size_t i = 0; i < kBytes; i += kCacheLine) ++memory[i];
}

template <class Call>
void measure_evicted(std::vector<double>& samples, const Call& call) {
  evict();
  samples.push_back(duration_of<std::chrono::microseconds>(call));
}

void measure_evicted_calls(int rounds) {
  constexpr std::size_t kParameters = 6;
  std::vector<std::vector<float>> values(kParameters, std::vector<float>(1000));
  std::vector<Parameter> parameters;
  for (std::vector<float>& each : values) {
    parameters.push_back({"p" + std::to_string(parameters.size()), {1000}, buffer_of(each)});
  }
  DistributedDataParallel ddp(init_process_group({.device = DeviceChoice::kCpu}), parameters);
  std::vector<double> begin_step, mark_ready, wait;
  for (int round = 0; round < rounds; ++round) {
    measure_evicted(begin_step, [&] { (void)ddp.begin_step({.samples = 64}); });
    for (std::size_t i = kParameters; i-- > 0;) {
      measure_evicted(mark_ready, [&] { ddp.mark_ready(i); });
    }
    measure_evicted(wait, [&] { ddp.wait(); });
  }
  const double begin_us = summarize(begin_step).median, mark_us = summarize(mark_ready).median,
               wait_us = summarize(wait).median;
  fmt::print(
      "\n# The calls of such a step with {} parameters, 8 MiB written before each call; medians of "
      "{} steps, us\nbegin_step {:.2f}, mark_ready {:.2f}, wait {:.2f}; a step {:.2f}\n",
      kParameters, rounds, begin_us, mark_us, wait_us, begin_us + kParameters * mark_us + wait_us);
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
  measure_evicted_calls(rounds);
}

}  // namespace ddp::bench
