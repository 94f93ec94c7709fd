// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <stdexcept>
#include <vector>

#include "engine/device_parts.h"
#include "support/simulated_collective.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

constexpr double kTolerable = 2;  // microseconds

}  // namespace

void measure_device_clock(int ticks) {
  std::vector<double> steps =
      steps_of_device_clock(cuda_device(0), static_cast<std::size_t>(ticks));
  if (steps.empty()) throw std::runtime_error("the GPU's clock stands still");
  for (double& step : steps) step /= 1e3;
  const double median = summarize(steps).median;
  Labels labels;
  if (median > kTolerable) {
    labels.emplace_back("warning", fmt::format("the GPU's clock moves in steps of {:.3g} us, and "
                                               "simulated collectives take their time by it",
                                               median));
  }
  print_figure({"step of the GPU's clock", "us", labels}, steps);
}

}  // namespace ddp::bench
