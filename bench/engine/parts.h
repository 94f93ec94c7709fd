// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

namespace ddp::bench {

// A part of bench_engine. On the CPU each part prints a table, on a GPU it prints figures
// (figure.h).
struct Part {
  const char* name;
  std::function<void(int rounds)> measure;
  int rounds;  // by default
};

// Host time and allocations of the engine's calls.
void measure_host_time(int rounds);

// A training step in a world of one, relative to the same step without the engine.
void measure_alone(int rounds);

// A step of two ranks with each check, relative to the step without checks.
void measure_checks(int rounds);

// How much of a simulated communication backward hides.
void measure_overlap(int rounds);

// The time of a step by bucket size on simulated links.
void measure_bucket_sizes(int rounds);

// The parts for a GPU; none in a build without CUDA. If `step_svg` is not empty, a picture of an
// overlapped step is written there.
[[nodiscard]] std::vector<Part> device_parts(const std::filesystem::path& step_svg);

}  // namespace ddp::bench
