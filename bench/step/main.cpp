// SPDX-License-Identifier: MIT
//
// What a training step of a model costs: forward, loss, backward with its reductions, and SGD, on
// data that is already in memory. Prints a table on the CPU, and one figure per line on GPUs.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/system/cpu_count.h"
#include "ddp/ddp.h"
#include "step/options.h"
#include "support/blas.h"
#include "support/figure.h"
#include "support/pinning.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"
#include "support/training.h"

namespace {

using namespace ddp::bench;
using Options = StepBenchOptions;

double milliseconds_of_step(Training& training, int steps) {
  return duration_of<std::chrono::milliseconds>([&] {
           for (int i = 0; i < steps; ++i) training.step();
           training.synchronize();
         }) /
         steps;
}

// A row of the table.
struct Case {
  std::string model;
  std::size_t buckets;
  std::string backend;
  std::size_t first_backend;  // index of the case with the same model on the first backend
};

void print_row(const Table& table, const Options& options, int ranks, const Case& row,
               const std::vector<double>& samples, const std::vector<double>& first) {
  const Summary time = summarize(samples);
  const Summary times = ratio(samples, first);
  const double samples_per_step = static_cast<double>(options.batch) * ranks;
  table.print_row({row.model, std::to_string(row.buckets), fmt::format("{:.3f}", time.median),
                   fmt::format("{:.0f}%", time.spread_percent()),
                   fmt::format("{:.0f}", 1000 * samples_per_step / time.median), row.backend,
                   fmt::format("{:.3f}", times.median),
                   fmt::format("{:.0f}%", times.spread_percent())});
}

void print(const Options& options, int ranks, const std::vector<Case>& cases,
           const std::vector<Variant>& variants) {
  std::puts(header_line("bench_step").c_str());
  fmt::print(
      "# {} rank{}, batch {} each, {}, one thread; medians of {} interleaved samples of {} "
      "step(s); x{}: the step's time over that with the first backend\n",
      ranks, ranks == 1 ? "" : "s", options.batch, ddp::to_string(options.dtype), options.rounds,
      options.steps, cases.front().backend);
  const Table table({{"model", 8},
                     {"buckets", 7},
                     {"step(ms)", 9},
                     {"+-", 4},
                     {"samples/s", 10},
                     {"backend", 7},
                     {"x" + cases.front().backend, 7},
                     {"+-", 4}});
  table.print_titles();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    print_row(table, options, ranks, cases[i], variants[i].samples,
              variants[cases[i].first_backend].samples);
  }
}

void print_figures(const Options& options, int ranks, const std::vector<Case>& cases,
                   const std::vector<Variant>& variants) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Workload workload = options.workload(cases[i].model);
    const double batch = static_cast<double>(workload.batch);
    const double step_ms = summarize(variants[i].samples).median;
    print_figure({"training step",
                  "ms",
                  {{"by", "libddp"},
                   {"model", workload.model},
                   {"batch", batch},
                   {"image", static_cast<double>(workload.sizes().image.height)},
                   {"precision", workload.precision()},
                   {"ranks", 1.0 * ranks},
                   {"sharing_a_gpu", std::getenv("DDP_OVERSUBSCRIBE") != nullptr ? "yes" : "no"},
                   {"backend", cases[i].backend},
                   {"buckets", static_cast<double>(cases[i].buckets)},
                   {"images_per_s", 1000 * batch * ranks / step_ms}}},
                 variants[i].samples);
  }
}

std::vector<std::shared_ptr<ddp::ProcessGroup>> make_groups(const Options& options) {
  const auto device = options.on_gpus ? ddp::DeviceChoice::kCuda : ddp::DeviceChoice::kCpu;
  std::vector<std::shared_ptr<ddp::ProcessGroup>> groups;
  for (const ddp::Backend backend : options.backends) {
    groups.push_back(ddp::init_process_group({.backend = backend, .device = device}));
  }
  return groups;
}

void run(const Options& options) {
  const auto groups = make_groups(options);
  const int ranks = groups.front()->world_size();
  // Only one rank alone is pinned: several ranks have a second thread each, for their reductions.
  std::optional<Pinned> pinned;
  if (ranks == 1 && !options.on_gpus) pinned.emplace(ddp::affinity_cpus().front());
  std::vector<Case> cases;
  std::vector<Variant> variants;
  const auto add = [&](const std::string& model, std::size_t min_buckets,
                       const std::shared_ptr<ddp::ProcessGroup>& group, std::size_t first) {
    const auto training = std::make_shared<Training>(
        options.workload(model), group, ddp::DdpOptions{.buckets = options.buckets(min_buckets)});
    cases.push_back(
        {model, training->engine().layout().buckets.size(), std::string(group->backend()), first});
    variants.push_back({"", [=] { return milliseconds_of_step(*training, options.steps); }});
  };
  for (const std::string& model : options.models) {
    for (const std::size_t min_buckets : options.min_buckets) {
      const std::size_t first = cases.size();
      for (const auto& group : groups) add(model, min_buckets, group, first);
    }
  }
  interleave(variants, options.rounds);
  if (groups.front()->rank() != 0) return;
  (options.on_gpus ? print_figures : print)(options, ranks, cases, variants);
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_step", [&] {
    use_one_blas_thread(argv);
    if (const auto options = parse_step_bench_options(argc, argv)) run(*options);
  });
}
