// SPDX-License-Identifier: MIT
//
// How a job that failed is summed up: one sentence that names the first cause.
#pragma once

#include <span>
#include <string>

#include "ddp/base/process_status.h"
#include "launcher/console.h"
#include "launcher/failure.h"

namespace ddp::launcher {

// Which of the ends, in the order in which they were reaped, is the cause; there is at least one
// failure of Ending::When::kFirst among them. A rank that says of itself that a peer's end has
// ended it is named only if there is nobody else: first among those that were dying when the first
// failure was seen, then among those that ended before we signalled anybody, then among those that
// left a record of an error.
//
// Where nobody says anything, a death by signal goes before an exit code: a rank that notices its
// peer's death exits with a code of its own and may be reaped first.
[[nodiscard]] Ending first_cause(std::span<const Ending> endings);

// "rank 3 (host b, pid 4711) was killed by SIGKILL after 12.5 s, in step 457: out of memory (61.0
// GiB resident, limit 64.0 GiB); 7 other ranks stopped because of it"
[[nodiscard]] std::string verdict(const WorkerFailure& failure);
[[nodiscard]] std::string verdict(const Failure& failure);

// The launcher's.
[[nodiscard]] int exit_code_after(const Failure& failure);

// The last lines of a failed job: what the first rank that failed wrote to stderr, unless that is
// in view, where the whole of it is, the functions in which it crashed, and the verdict.
void say(Console& console, const Failure& failure);

}  // namespace ddp::launcher
