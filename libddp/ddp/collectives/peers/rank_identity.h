// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "ddp/base/device.h"
#include "ddp/base/field_lines.h"
#include "ddp/base/system/host_name.h"

namespace ddp {

// Decides whether processes can open each other's /proc/PID/fd, which is how ranks share memory.
// Network and mounts do not matter.
struct HostFacts {
  std::string boot_id = {};        // of the running kernel
  std::string pid_namespace = {};  // where a pid means the same process
  // The kernel checks these two as for ptrace(2), PTRACE_MODE_READ_FSCREDS.
  std::string user_namespace = {};
  std::string user = {};       // effective user and group
  int pid = 0;                 // of this process
  std::string proc_self = {};  // target of /proc/self: the pid, if /proc is of our namespace
};

// Returns the facts of this process.
[[nodiscard]] HostFacts host_facts();

// Why a process with these facts cannot share memory with any other, and what to do; empty if it
// can.
[[nodiscard]] std::string obstacle_to_sharing(const HostFacts& facts);
// For this process; also tries whether it can create shared memory.
[[nodiscard]] std::string obstacle_to_sharing();

// Processes with equal identities see each other. A process that cannot see others has its own.
[[nodiscard]] std::string host_identity(const HostFacts& facts);
[[nodiscard]] std::string host_identity();

// Where a rank of the job runs.
struct RankIdentity {
  int rank = 0;
  std::string host = {};  // host_identity()
  std::string host_name = {};
  int pid = 0;
  std::uint64_t start_time = 0;  // see ProcessStat, since pids are reused; 0: unknown
  std::string device = {};
};

// This process.
[[nodiscard]] RankIdentity identify_self(int rank, Device device);

// "rank 3 (node7, pid 123, cuda:3)".
[[nodiscard]] std::string to_string(const RankIdentity& who);

FieldWriter& operator<<(FieldWriter& fields, const RankIdentity& who);
FieldReader& operator>>(FieldReader& fields, RankIdentity& who);
[[nodiscard]] std::string serialize(const RankIdentity& who);
// Throws NetworkError for what serialize() has not written.
[[nodiscard]] RankIdentity parse_rank_identity(const std::string& text);

enum class ProcessState : std::uint8_t { kUnknown, kAlive, kStopped, kEnded };

// As in /proc; unknown for a process that this one cannot see.
[[nodiscard]] ProcessState state_of(const RankIdentity& who);

}  // namespace ddp
