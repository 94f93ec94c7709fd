// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "support/figure.h"
#include "support/workload.h"

namespace ddp::bench {

// The parts of bench_engine on GPU 0.

// The resolution of the device clock that ends simulated collectives.
void measure_device_clock(int ticks);

// Host time and allocations of the engine's calls.
void measure_device_host_time(int rounds);

// Microseconds of the host for an ncclAllReduce of one bucket without this library: a sample for
// each step of as many as the engine's host times are for. Collective.
[[nodiscard]] std::vector<double> nccl_launch_times(ProcessGroup& group, int rounds);

// A training step in a world of one, relative to the same step without the engine.
void measure_device_alone(int rounds);

// The number of kernels and copies in these two steps.
void measure_device_work(int rounds);

// How much of a simulated communication a real backward hides. Draws a step if `step_svg` is not
// empty.
void measure_device_overlap(int rounds, const std::filesystem::path& step_svg);

// A matrix product beside a simulated collective, relative to the product alone.
void measure_gemm_beside(int rounds);

// resnet18 with batches of 64 images of 224 x 224.
[[nodiscard]] Workload device_workload();
[[nodiscard]] Labels labels_of(const Workload& workload);

}  // namespace ddp::bench
