// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// Numbers of CPUs, ascending.
using CpuList = std::vector<int>;

// Parses "0-3,8", the kernel's format. Stops at the first text that is not a number.
[[nodiscard]] CpuList parse_cpu_list(std::string_view text);
[[nodiscard]] std::string to_string(const CpuList& cpus);

// The mask for sched_setaffinity(2), with as many words as the highest CPU needs.
[[nodiscard]] std::vector<unsigned long> affinity_mask(const CpuList& cpus);

}  // namespace ddp::launcher
