// SPDX-License-Identifier: MIT
//
// What a training step of a model costs: forward, loss, backward with its reductions and SGD on
// data that is already there.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <cxxopts.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "support/blas.h"
#include "support/pinning.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"
#include "support/training.h"

namespace {

using namespace ddp::bench;

struct Options {
  std::vector<std::string> models;
  std::vector<std::size_t> min_buckets;
  int rounds;
  int steps;  // timed together
  std::size_t batch;
  ddp::DType dtype;
};

ddp::DType dtype_named(const std::string& name) {
  if (name == "float32") return ddp::DType::kFloat32;
  if (name == "float64") return ddp::DType::kFloat64;
  throw std::invalid_argument("--dtype " + name + ": only float32 and float64 can be trained");
}

std::optional<Options> parse(int argc, char** argv) {
  cxxopts::Options parser("bench_step",
                          "Milliseconds of a training step on the CPU. Alone or, under ddp-launch, "
                          "with several ranks.");
  auto add = parser.add_options();
  add("models", "models of the factory",
      cxxopts::value<std::vector<std::string>>()->default_value("mlp,lenet5"));
  add("min-buckets", "BucketOptions::min_buckets",
      cxxopts::value<std::vector<std::size_t>>()->default_value("4"));
  add("rounds", "interleaved repeats", cxxopts::value<int>()->default_value("300"));
  add("steps", "steps timed together", cxxopts::value<int>()->default_value("1"));
  add("batch-size", "samples a step", cxxopts::value<std::size_t>()->default_value("64"));
  add("dtype", "float32 or float64", cxxopts::value<std::string>()->default_value("float32"));
  const auto given = parse_command_line(std::move(parser), argc, argv);
  if (!given) return std::nullopt;
  const cxxopts::ParseResult& parsed = *given;
  return Options{.models = parsed["models"].as<std::vector<std::string>>(),
                 .min_buckets = parsed["min-buckets"].as<std::vector<std::size_t>>(),
                 .rounds = parsed["rounds"].as<int>(),
                 .steps = parsed["steps"].as<int>(),
                 .batch = parsed["batch-size"].as<std::size_t>(),
                 .dtype = dtype_named(parsed["dtype"].as<std::string>())};
}

double milliseconds_of_step(Training& training, int steps) {
  return duration_of<std::chrono::milliseconds>([&] {
           for (int i = 0; i < steps; ++i) training.step();
         }) /
         steps;
}

void print(const Options& options, int ranks, const std::vector<Variant>& variants) {
  std::puts(header_line("bench_step").c_str());
  fmt::print(
      "# {} rank{}, batch {} each, {}, one thread; medians of {} interleaved samples of {} "
      "step(s)\n",
      ranks, ranks == 1 ? "" : "s", options.batch, ddp::to_string(options.dtype), options.rounds,
      options.steps);
  const Table table({{"model", 8}, {"buckets", 7}, {"step(ms)", 9}, {"+-", 4}, {"samples/s", 10}});
  table.print_titles();
  for (const Variant& variant : variants) {
    const Summary time = summarize(variant.samples);
    const double samples = static_cast<double>(options.batch) * ranks;
    const std::size_t space = variant.name.find(' ');
    table.print_row({variant.name.substr(0, space), variant.name.substr(space + 1),
                     fmt::format("{:.3f}", time.median),
                     fmt::format("{:.0f}%", time.spread_percent()),
                     fmt::format("{:.0f}", 1000 * samples / time.median)});
  }
}

void run(const Options& options) {
  const auto group = ddp::init_process_group({.device = ddp::DeviceChoice::kCpu});
  std::optional<Pinned> pinned;  // ranks side by side have a thread each for their reductions, too
  if (group->world_size() == 1) pinned.emplace(usable_cpus().front());
  std::vector<Variant> variants;
  for (const std::string& model : options.models) {
    for (const std::size_t min_buckets : options.min_buckets) {
      const auto training =
          std::make_shared<Training>(Workload{model, options.batch, options.dtype}, group,
                                     ddp::DdpOptions{.buckets = {.min_buckets = min_buckets}});
      variants.push_back({fmt::format("{} {}", model, training->engine().layout().buckets.size()),
                          [=] { return milliseconds_of_step(*training, options.steps); }});
    }
  }
  interleave(variants, options.rounds);
  if (group->rank() == 0) print(options, group->world_size(), variants);
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_step", [&] {
    use_one_blas_thread(argv);
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
