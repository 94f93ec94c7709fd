// SPDX-License-Identifier: MIT
//
// A node of a job, and its entry in the store, by which the other launchers know it:
//   entry := HOST "\n" PID "\n" WORKERS "\n" UNIQUE "\n"
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddp::launcher {

struct Node {
  std::string host;  // host name
  pid_t launcher = 0;
  int workers = 0;
};

// "node 1 (gpu-b)"
[[nodiscard]] std::string describe_node(int rank, const std::string& host);

// The lines of an entry before the unique one.
[[nodiscard]] std::string serialize(const Node& node);

// Both throw LaunchError(kOtherVersion) if the text is not that of entries, one after the other.
[[nodiscard]] Node parse_node(const std::string& entry);
[[nodiscard]] std::vector<Node> parse_nodes(const std::string& entries, int count);

inline constexpr const char* kOtherVersion =
    "a node of this job runs another launcher, or another version of ddp-launch";

}  // namespace ddp::launcher
