// SPDX-License-Identifier: MIT
//
// Whether a process was killed because memory had run out: the kernel tells nobody but counts such
// kills, for each control group and in all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddp/base/cpu_count.h"
#include "launcher/failure.h"

namespace ddp::launcher {

// Where the kernel says it; tests bring their own files.
struct MemorySource {
  CgroupSource cgroup;
  std::string proc = "/proc";

  static MemorySource of_this_process();
};

struct MemoryState {
  std::int64_t oom_kills = 0;
  std::optional<std::int64_t> limit_bytes{};  // the tightest; else what the machine has

  friend bool operator==(const MemoryState&, const MemoryState&) = default;
};

// Version 2: oom_kill of memory.events, memory.max; version 1: oom_kill of memory.oom_control,
// memory.limit_in_bytes. Where no control group says anything: /proc/vmstat and /proc/meminfo.
[[nodiscard]] MemoryState read_memory_state(const MemorySource& source);

// Whether a process ended by a kill that has been counted between the two: by SIGKILL, or with the
// exit code 137 of a shell one of whose processes died so.
[[nodiscard]] std::optional<OutOfMemory> find_out_of_memory(int status, const MemoryState& before,
                                                            const MemoryState& after);

}  // namespace ddp::launcher
