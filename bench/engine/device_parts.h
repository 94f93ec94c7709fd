// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "support/figure.h"
#include "support/workload.h"

namespace ddp::bench {

// The parts of bench_engine on GPU 0.

// The steps of the clock by which simulated collectives take their time.
void measure_device_clock(int ticks);

// Host time of the engine's calls, and what they allocate.
void measure_device_host_time(int rounds);

// A training step in a world of one over the same step without the engine.
void measure_device_alone(int rounds);

// The kernels and copies of such steps.
void measure_device_work(int rounds);

// How much of a simulated communication a real backward hides; draws a step if a file is given.
void measure_device_overlap(int rounds, const std::filesystem::path& step_svg);

// A matrix product beside a simulated collective over the same alone.
void measure_gemm_beside(int rounds);

// resnet18 with batches of 64 images of 224 x 224.
[[nodiscard]] Workload device_workload();
[[nodiscard]] Labels labels_of(const Workload& workload);

}  // namespace ddp::bench
