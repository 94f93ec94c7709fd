// SPDX-License-Identifier: MIT
//
// Measures the same global batch in turns on one device, on two devices of one process
// (DataParallel), and on two processes (DistributedModule):
//   ddp-launch -n 2 bench_parallel
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/on_rank0.h"
#include "ddp/ddp.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/parallel/data_parallel.h"
#include "support/blas.h"
#include "support/command_line.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"
#include "support/training.h"

namespace {

using namespace ddp::bench;
namespace nn = ddp::nn;

struct Options {
  std::vector<std::string> models = {"mlp", "lenet5"};
  int rounds = 50;
  int steps = 5;  // in one timing
  std::size_t batch = 128;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  CommandLine line("bench_parallel",
                   "Training on one CPU device, on several with DataParallel, and with one process "
                   "for each. Under ddp-launch.");
  line.add("models", "models of the factory", options.models);
  line.add("rounds", "interleaved repeats", options.rounds);
  line.add("steps", "steps timed together", options.steps);
  line.add("batch-size", "samples a step, of all devices together", options.batch);
  return line.parse(argc, argv) ? std::optional(options) : std::nullopt;
}

// DataParallel in one process, on `devices` CPU devices.
class Local {
 public:
  Local(const Workload& workload, std::size_t devices)
      : model_(context_, nn::Scope(context_, workload.dtype, 0),
               [&](const nn::Scope& scope) { return make_model(workload, scope); },
               {.device_ids = std::vector<ddp::Device>(devices, ddp::kCpuDevice)}),
        sgd_(context_, model_.parameters(), {.learning_rate = 1e-3, .momentum = 0.9}),
        batch_(make_batch(context_, workload)) {}

  void step() {
    tape_.backward(loss_of(tape_, model_.forward(tape_, batch_.inputs), batch_));
    sgd_.step();
  }

 private:
  nn::Context context_;
  nn::Tape tape_{context_};
  nn::DataParallel model_;
  nn::Sgd sgd_;
  Batch batch_;
};

double milliseconds_of_step(int steps, const std::function<void()>& step) {
  return duration_of<std::chrono::milliseconds>([&] {
           for (int i = 0; i < steps; ++i) step();
         }) /
         steps;
}

// Runs on rank 0, while the other ranks sleep.
Variant local_variant(const std::string& name, const Workload& workload, std::size_t devices,
                      int steps, const std::shared_ptr<ddp::ProcessGroup>& group) {
  const auto local = std::make_shared<Local>(workload, devices);
  return {name, [=] {
            double time = 0;
            ddp::on_rank0(*group,
                          [&] { time = milliseconds_of_step(steps, [&] { local->step(); }); });
            return time;
          }};
}

Variant distributed_variant(const Workload& workload, int steps,
                            const std::shared_ptr<ddp::ProcessGroup>& group) {
  const auto training = std::make_shared<Training>(workload, group);
  return {"processes (DDP)", [=] {
            training->step();  // aligns the ranks before the timing starts
            return milliseconds_of_step(steps, [&] { training->step(); });
          }};
}

void print(const std::string& model, const Options& options, const std::vector<Variant>& variants) {
  const Table table(
      {{"model", 9}, {"on", 24}, {"step(ms)", 9}, {"+-", 4}, {"speed-up", 9}, {"+-", 4}});
  if (model == options.models.front()) table.print_titles();
  for (const Variant& variant : variants) {
    const Summary time = summarize(variant.samples);
    const Summary gain = ratio(variants.front().samples, variant.samples);
    table.print_row({model, variant.name, fmt::format("{:.3f}", time.median),
                     fmt::format("{:.0f}%", time.spread_percent()),
                     fmt::format("x{:.2f}", gain.median),
                     fmt::format("{:.0f}%", gain.spread_percent())});
  }
}

void measure(const std::string& model, const Options& options,
             const std::shared_ptr<ddp::ProcessGroup>& group) {
  const auto ranks = static_cast<std::size_t>(group->world_size());
  const Workload whole{model, options.batch};
  const Workload share{model, options.batch / ranks};
  std::vector<Variant> variants = {local_variant("1 device", whole, 1, options.steps, group),
                                   local_variant(fmt::format("{} devices (DataParallel)", ranks),
                                                 whole, ranks, options.steps, group),
                                   distributed_variant(share, options.steps, group)};
  variants.back().name = fmt::format("{} {}", ranks, variants.back().name);
  interleave(variants, options.rounds);
  if (group->rank() == 0) print(model, options, variants);
}

void run(const Options& options) {
  const auto group = ddp::init_process_group({.device = ddp::DeviceChoice::kCpu});
  if (options.batch % static_cast<std::size_t>(group->world_size()) != 0) {
    throw std::invalid_argument("--batch-size must be a multiple of the number of ranks");
  }
  if (group->rank() == 0) {
    std::puts(header_line("bench_parallel").c_str());
    fmt::print(
        "# batch {} in all, float32, a thread a device; medians of {} interleaved samples "
        "of {} steps; speed-up over 1 device by round\n",
        options.batch, options.rounds, options.steps);
  }
  for (const std::string& model : options.models) measure(model, options, group);
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_parallel", [&] {
    use_one_blas_thread(argv);
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
