// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::bench {

// Runs a command, found through PATH, to its end and returns the milliseconds that took, as its
// parent sees them. Its output is thrown away. Throws ddp::Error unless it exits with 0 within 20
// s; it is killed then.
[[nodiscard]] double run_milliseconds(const std::vector<std::string>& command);

struct CountedOutput {
  std::int64_t lines = 0;
  double milliseconds = 0;
};

// The same, with a look at its stdout.
[[nodiscard]] CountedOutput run_counting_lines(const std::vector<std::string>& command);

// A command that runs until this object ends, which asks it to by SIGTERM and waits for it. Its
// output is thrown away.
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
