// SPDX-License-Identifier: MIT
//
// Detects whether a process was killed because memory was exhausted. The kernel notifies nobody,
// but counts such kills, for each control group and in total.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddp/base/system/cgroup.h"
#include "launcher/verdict/failure.h"

namespace ddp::launcher {

// Where to read the kernel's counts; tests use files of their own.
struct MemorySource {
  CgroupSource cgroup;
  std::string proc = "/proc";

  static MemorySource of_this_process();
};

struct MemoryState {
  std::int64_t oom_kills = 0;
  std::optional<std::int64_t> limit_bytes{};  // the tightest; else the machine's memory

  friend bool operator==(const MemoryState&, const MemoryState&) = default;
};

// Version 2: oom_kill of memory.events, memory.max; version 1: oom_kill of memory.oom_control,
// memory.limit_in_bytes. If no control group has them: /proc/vmstat and /proc/meminfo.
[[nodiscard]] MemoryState read_memory_state(const MemorySource& source);

// The kill that was counted between `before` and `after`, if the process ended by one: by SIGKILL,
// or with exit code 137 of a shell whose child was killed.
[[nodiscard]] std::optional<OutOfMemory> find_out_of_memory(int status, const MemoryState& before,
                                                            const MemoryState& after);

}  // namespace ddp::launcher
