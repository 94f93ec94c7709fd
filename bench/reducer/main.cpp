// SPDX-License-Identifier: MIT
//
// What the reducer costs and hides: for several bucket sizes, the time of a step with and without
// overlap, the host time of each mark_ready, and allocations. Run it under ddp-launch.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "ddp/ddp.h"
#include "support/command_line.h"
#include "support/program.h"
#include "support/report.h"
#include "support/simulated_model.h"
#include "support/statistics.h"

namespace {

using namespace ddp;
using namespace ddp::bench;
using namespace std::chrono_literals;

constexpr std::size_t kBucketCaps[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 25 << 20};

struct Options {
  ModelShape shape;
  int rounds = 11;
  int steps = 5;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  std::size_t layer_kib = 128;
  int layer_us = 100;
  CommandLine line("bench_reducer", "Step time with overlap on and off, by bucket size");
  line.add("layers", "layers of the model", options.shape.layers);
  line.add("layer-kib", "gradient of a layer, KiB", layer_kib);
  line.add("layer-us", "backward of a layer, us", layer_us);
  line.add("rounds", "interleaved repeats", options.rounds);
  line.add("steps", "steps of one repeat", options.steps);
  if (!line.parse(argc, argv)) return std::nullopt;
  options.shape.layer_bytes = layer_kib << 10;
  options.shape.layer_time = std::chrono::microseconds(layer_us);
  return options;
}

// One bucket size: the model with overlap, without overlap, and its backward alone.
struct Row {
  SimulatedModel overlapping;
  SimulatedModel waiting;
  std::vector<double> mark_ready_us = {};
  std::vector<double> allocations = {};
};

DdpOptions buckets(std::size_t cap, bool overlap) {
  return {.buckets = {.bucket_bytes_cap = cap,
                      .first_bucket_bytes_cap = cap,
                      .last_bucket_bytes_cap = cap,
                      .parts = 1,
                      .min_buckets = 1,
                      .overlap = overlap}};
}

std::string with_spread(const Summary& summary, int digits) {
  return fmt::format("{:.{}f} {:3.0f}%", summary.median, digits, summary.spread_percent());
}

void measure(const std::shared_ptr<ProcessGroup>& group, std::size_t cap, BackwardKind kind,
             const Options& options, const Table& table) {
  Row row{.overlapping = {group, options.shape, buckets(cap, true)},
          .waiting = {group, options.shape, buckets(cap, false)}};
  const auto run_overlapping = [&] {
    const StepCost cost = row.overlapping.run(kind, options.steps);
    row.mark_ready_us.push_back(cost.mark_ready_us);
    row.allocations.push_back(cost.allocations);
    return cost.milliseconds;
  };
  std::vector<Variant> variants{
      {"backward", [&] { return row.overlapping.run_backward(kind, options.steps); }},
      {"off", [&] { return row.waiting.run(kind, options.steps).milliseconds; }},
      {"on", run_overlapping}};
  interleave(variants, options.rounds);
  row.mark_ready_us.erase(row.mark_ready_us.begin());  // of the warm-up, as interleave drops it
  row.allocations.erase(row.allocations.begin());
  if (group->rank() != 0) return;
  table.print_row({kind == BackwardKind::kOnCpu ? "CPU" : "elsewhere", fmt::format("{}", cap >> 10),
                   std::to_string(row.overlapping.bucket_count()),
                   with_spread(summarize(variants[0].samples), 2),
                   with_spread(summarize(variants[1].samples), 2),
                   with_spread(summarize(variants[2].samples), 2),
                   with_spread(ratio(variants[2].samples, variants[1].samples), 2),
                   with_spread(summarize(row.mark_ready_us), 2),
                   fmt::format("{:.1f}", summarize(row.allocations).upper_quartile)});
}

void run(const Options& options) {
  const auto group = init_process_group({.device = DeviceChoice::kCpu});
  const Table table({{"backward on", 11},
                     {"cap, KiB", 8},
                     {"buckets", 7},
                     {"backward, ms", 12},
                     {"off, ms", 12},
                     {"on, ms", 12},
                     {"on / off", 9},
                     {"mark_ready, us", 14},
                     {"allocations", 11}});
  if (group->rank() == 0) {
    std::puts(header_line("bench_reducer").c_str());
    fmt::print(
        "# {} ranks over {}; {} layers of {} KiB and {} us; a step, medians of {} samples of {} "
        "steps; % is half the interquartile range\n",
        group->world_size(), group->backend(), options.shape.layers,
        options.shape.layer_bytes >> 10, options.shape.layer_time / 1us, options.rounds,
        options.steps);
    table.print_titles();
  }
  for (const BackwardKind kind : {BackwardKind::kElsewhere, BackwardKind::kOnCpu}) {
    for (const std::size_t cap : kBucketCaps) measure(group, cap, kind, options, table);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_reducer", [&] {
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
