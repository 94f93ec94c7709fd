// SPDX-License-Identifier: MIT
//
// How a job that failed is summed up: one sentence that names the first cause.
#pragma once

#include <span>
#include <string>

#include "launcher/failure.h"

namespace ddp::launcher {

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

}  // namespace ddp::launcher
