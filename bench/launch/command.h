// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::bench {

// Runs a command, found through PATH, to its end, and returns how many milliseconds its parent
// waited. Discards its output. Throws ddp::Error unless it exits with 0 within 20 s; after that it
// is killed.
[[nodiscard]] double run_milliseconds(const std::vector<std::string>& command);

struct CountedOutput {
  std::int64_t lines = 0;
  double milliseconds = 0;
};

// The same, but counts the lines that the command writes to stdout.
[[nodiscard]] CountedOutput run_counting_lines(const std::vector<std::string>& command);

// A command that runs as long as this object exists. The destructor sends it SIGTERM and waits for
// it. Discards its output.
class RunningCommand {
 public:
  explicit RunningCommand(const std::vector<std::string>& command);
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace ddp::bench
