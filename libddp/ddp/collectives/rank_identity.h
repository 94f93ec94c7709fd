// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "ddp/base/device.h"
#include "ddp/base/host_name.h"

namespace ddp {

// Processes with equal ones see each other: same kernel, same pid namespace.
[[nodiscard]] std::string host_identity();

// Where a rank of the job runs.
struct RankIdentity {
  int rank = 0;
  std::string host = {};  // host_identity()
  std::string host_name = {};
  int pid = 0;
  std::string device = {};
};

// This process.
[[nodiscard]] RankIdentity identify_self(int rank, Device device);

// "rank 3 (node7, pid 123, cuda:3)".
[[nodiscard]] std::string to_string(const RankIdentity& who);

// Four lines.
[[nodiscard]] std::string serialize(const RankIdentity& who);
// Reads what serialize() wrote from the begin of a stream; that fails if it is something else.
std::istream& operator>>(std::istream& lines, RankIdentity& who);

enum class ProcessState : std::uint8_t { kUnknown, kAlive, kStopped, kEnded };

// As /proc has it; unknown for a process that this one cannot see.
[[nodiscard]] ProcessState state_of(const RankIdentity& who);

}  // namespace ddp
