// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// Numbers of CPUs, ascending.
using CpuList = std::vector<int>;

// "0-3,8", as the kernel writes it. What is no number ends the list.
[[nodiscard]] CpuList parse_cpu_list(std::string_view text);
[[nodiscard]] std::string to_string(const CpuList& cpus);

// As sched_setaffinity(2) takes it, in as many words as the highest CPU needs.
[[nodiscard]] std::vector<unsigned long> affinity_mask(const CpuList& cpus);

}  // namespace ddp::launcher
