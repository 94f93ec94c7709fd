// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

namespace ddp::bench {

// A part of bench_engine. On the CPU each prints a table of its own, on a GPU figures (figure.h).
struct Part {
  const char* name;
  std::function<void(int rounds)> measure;
  int rounds;  // by default
};

// Host time of the engine's calls, and what they allocate.
void measure_host_time(int rounds);

// A training step in a world of one over the same step without the engine.
void measure_alone(int rounds);

// A step of two ranks with each check over the step without any.
void measure_checks(int rounds);

// How much of a simulated communication backward hides.
void measure_overlap(int rounds);

// The time of a step by bucket size on simulated links.
void measure_bucket_sizes(int rounds);

// Those for a GPU; none in a build without CUDA. Where a picture of an overlapped step goes, unless
// that is empty, is `step_svg`.
[[nodiscard]] std::vector<Part> device_parts(const std::filesystem::path& step_svg);

}  // namespace ddp::bench
