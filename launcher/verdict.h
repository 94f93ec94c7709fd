// SPDX-License-Identifier: MIT
//
// How a job that failed is summed up: one sentence that names the first cause.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp::launcher {

struct Ending {
  int rank = 0;
  pid_t pid = 0;
  int status = 0;  // as waitpid(2) gives it

  [[nodiscard]] bool is_failure() const { return status != 0; }
};

// The first failure of a job, and what came of it.
struct Failure {
  static constexpr int kNoRank = -1;  // `message` says what happened to a node

  Ending first = {.rank = kNoRank, .status = 1 << 8};
  int others = 0;                         // ranks that stopped because of it
  std::chrono::duration<double> after{};  // the start of the workers
  std::string message = {};
  std::optional<std::int64_t> step = {};     // the last one known
  std::vector<std::string> last_lines = {};  // of its stderr, unless they are on the screen still
};

// Which of several workers that were dying before we stopped anybody is the cause; there is at
// least one failure among them, in the order in which they were reaped. A rank that notices its
// peer's death exits with a code of its own and may be reaped first, but it is not killed by a
// signal: so the first death by signal wins, then the first exit code.
[[nodiscard]] Ending first_cause(std::span<const Ending> suspects);

// "exited with code 7", "was killed by SIGSEGV (core dumped)".
[[nodiscard]] std::string describe_status(int status);

// The exit code, or 128 + the signal, as a shell has it.
[[nodiscard]] int exit_code_of(int status);

// "rank 3 (pid 4711) was killed by SIGKILL after 12.5 s; 7 other ranks stopped because of it"
[[nodiscard]] std::string verdict(const Failure& failure);

// For another node.
[[nodiscard]] std::string serialize(const Failure& failure);
[[nodiscard]] Failure parse_failure(const std::string& text);

}  // namespace ddp::launcher
