// SPDX-License-Identifier: MIT
#include <chrono>
#include <memory>
#include <vector>

#include "ddp/ddp.h"
#include "engine/device_parts.h"
#include "support/device_work.h"
#include "support/program.h"
#include "support/statistics.h"
#include "support/training.h"

namespace ddp::bench {
namespace {

std::shared_ptr<ProcessGroup> world_of_one() {
  return init_process_group({.device = DeviceChoice::kCuda, .rank = 0, .world_size = 1});
}

// The second variant is the control: it shows how much the times of equal steps differ.
void measure(const Workload& workload, int steps, int rounds) {
  Training training(workload, world_of_one());
  const auto variant = [&](auto step) {
    return Variant{"", [&training, steps, step] {
                     return duration_of<std::chrono::milliseconds>([&] {
                              for (int i = 0; i < steps; ++i) step(training);
                              training.synchronize();
                            }) /
                            steps;
                   }};
  };
  const auto plain_step = [](Training& t) { t.step_without_engine(); };
  std::vector<Variant> variants = {variant(plain_step), variant(plain_step),
                                   variant([](Training& t) { t.step(); })};
  interleave(variants, rounds);
  const std::vector<double>& plain = variants[0].samples;
  const std::vector<double>& engine = variants[2].samples;
  const Labels labels = labels_of(workload) + Labels{{"steps_a_sample", 1.0 * steps}};
  print_figure({"step without the engine", "ms", labels}, plain);
  print_figure({"step with the engine, world_size 1", "ms", labels}, engine);
  print_figure({"step without the engine over itself", "ratio", labels},
               ratio(variants[1].samples, plain), plain.size());
  print_figure({"step with the engine over without, world_size 1", "ratio", labels},
               ratio(engine, plain), plain.size());
}

}  // namespace

void measure_device_alone(int rounds) {
  measure({.model = "lenet5", .batch = 64}, 20, rounds);
  measure(device_workload(), 5, rounds);
}

void measure_device_work(int) {
  for (const Workload& workload : {Workload{.model = "lenet5", .batch = 64}, device_workload()}) {
    Training training(workload, world_of_one());
    training.step();  // chooses algorithms, allocates memory
    training.step_without_engine();
    training.synchronize();
    const DeviceWork plain =
        device_work_of(training.stream(), [&] { training.step_without_engine(); });
    const DeviceWork engine = device_work_of(training.stream(), [&] { training.step(); });
    const Labels labels =
        labels_of(workload) + Labels{{"without", static_cast<double>(plain.kernels)}};
    print_count({"kernels that the engine adds to a step, world_size 1", "kernels", labels},
                static_cast<double>(engine.kernels) - static_cast<double>(plain.kernels));
    print_count({"bytes that the engine copies or sets in a step, world_size 1", "bytes",
                 labels_of(workload)},
                static_cast<double>(engine.bytes) - static_cast<double>(plain.bytes));
  }
}

}  // namespace ddp::bench
