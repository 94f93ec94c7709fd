// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/time.h"

namespace ddp::launcher {

// How many workers the user asked for.
struct WorkerRequest {
  enum class Kind { kNumber, kAuto, kGpu, kCpu };
  Kind kind = Kind::kNumber;
  int number = 1;  // of kNumber
};

// Whose output reaches the console.
struct Show {
  enum class Kind { kDefault, kAll, kListed };
  Kind kind = Kind::kDefault;  // kDefault: stdout of rank 0, stderr of every rank
  std::vector<int> ranks;      // of kListed

  [[nodiscard]] bool shows_stdout(int rank) const;
  [[nodiscard]] bool shows_stderr(int rank) const;
};

struct Options {
  enum class Action { kRun, kPrintHelp, kPrintVersion };
  Action action = Action::kRun;
  WorkerRequest workers;
  std::string master_addr;
  std::uint16_t master_port = 0;  // 0: a free one
  Show show;
  std::optional<Timeout> grace;  // between a request to stop and SIGKILL
  bool detach = false;           // go on in the background
  bool oversubscribe = false;    // workers may share GPUs
  bool verbose = false;
  std::vector<std::string> command;  // PROGRAM and its arguments
};

// `args` is argv without argv[0]. Throws LaunchError naming flag and value.
[[nodiscard]] Options parse_options(std::span<const std::string> args);

[[nodiscard]] std::string help_text();

}  // namespace ddp::launcher
