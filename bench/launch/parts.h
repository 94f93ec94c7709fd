// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace ddp::bench {

// The parts of bench_launch; each prints a table of its own. `bin` is the folder of ddp-launch, the
// examples and this program. Launchers that are not installed are left out.

// Milliseconds from start to end of whole jobs.
void measure_start(const std::string& bin, int rounds);

// CPU time and memory of a launcher while its job runs.
void measure_watching(const std::string& bin, int rounds);

// Lines per second through a launcher.
void measure_logs(const std::string& bin, int rounds);

// The work of measure_logs's workers: writes lines to stdout, each with a write(2) of its own.
void write_lines(int count);

}  // namespace ddp::bench
