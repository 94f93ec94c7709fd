// SPDX-License-Identifier: MIT
#pragma once

namespace ddp::bench {

// The parts of bench_engine; each prints a table of its own.

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

}  // namespace ddp::bench
