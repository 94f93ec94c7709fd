// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/ddp.h"
#include "ddp/engine/statistics/step_svg.h"
#include "engine/device_parts.h"
#include "engine/overlap_samples.h"
#include "support/simulated_device_group.h"
#include "support/training.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kWarmUp = 3;
constexpr unsigned kBlocks = 16;
constexpr auto kLatency = 20us;
constexpr double kGigabytesPerSecond[] = {25, 100, 400};  // algbw of the simulated all_reduce
constexpr double kDrawn = 100;

StepTimes times_of_step(Training& training) {
  training.step_in_parts();
  return training.engine().times();
}

void draw(const StepTimes& times, const Workload& workload, double gigabytes,
          const std::filesystem::path& file) {
  const RankStep step{.rank = 0, .step = 1, .engine = times};
  std::ofstream stream(file);
  stream << draw_step({&step, 1},
                      fmt::format("backward of resnet18, 64 images of 224 x 224, {}, beside "
                                  "simulated reductions at {} GB/s in {} blocks each",
                                  workload.precision(), gigabytes, kBlocks));
  stream.close();
  if (!stream) throw FileError("cannot write " + file.string());
}

void print(const OverlapSamples& overlap, const Labels& labels) {
  print_figure({"communication hidden behind backward", "percent", labels}, overlap.hidden);
  print_figure({"exposed communication", "ms", labels}, overlap.exposed);
  print_figure({"reduction of the last bucket", "ms", labels}, overlap.last_bucket);
  print_figure({"reductions of a step together", "ms", labels}, overlap.communication);
  print_figure({"backward beside reductions", "ms", labels}, overlap.backward);
}

// Measures each step in turns with one without communication; the order within a turn alternates.
void measure(const Workload& workload, double gigabytes, int rounds,
             const std::filesystem::path& step_svg) {
  const SimulatedLink link{.latency = kLatency, .bytes_per_second = gigabytes * 1e9};
  const DdpOptions options{.record_times = true};
  Training beside(workload, make_simulated_device_group(link, kBlocks, 2, cuda_device(0)), options);
  Training alone(workload, init_process_group({.device = DeviceChoice::kCuda}), options);
  OverlapSamples overlap;
  std::vector<double> slowdown;
  StepTimes without, last;
  for (int round = -kWarmUp; round < rounds; ++round) {
    if (round % 2 == 0) without = times_of_step(alone);
    last = times_of_step(beside);
    if (round % 2 != 0) without = times_of_step(alone);
    if (round < 0) continue;
    overlap.add(last);
    slowdown.push_back(overlap.backward.back() /
                       OverlapSamples::milliseconds({without.begin, without.backward_end}));
  }
  const Labels labels =
      labels_of(workload) + Labels{{"gb_per_s", gigabytes},
                                   {"blocks", 1.0 * kBlocks},
                                   {"buckets", static_cast<double>(last.buckets.size())}};
  print(overlap, labels);
  print_figure({"backward beside reductions over alone", "ratio", labels}, slowdown);
  const bool is_drawn = gigabytes == kDrawn && !workload.amp && !step_svg.empty();
  if (is_drawn) draw(last, workload, gigabytes, step_svg);
}

}  // namespace

void measure_device_overlap(int rounds, const std::filesystem::path& step_svg) {
  Workload workload = device_workload();
  for (const auto amp : {std::optional<DType>(), std::optional(DType::kBFloat16)}) {
    workload.amp = amp;
    for (const double gigabytes : kGigabytesPerSecond) {
      measure(workload, gigabytes, rounds, step_svg);
    }
  }
}

}  // namespace ddp::bench
