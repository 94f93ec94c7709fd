// SPDX-License-Identifier: MIT
//
// Sums up a failed job in one sentence that names the first cause.
#pragma once

#include <span>
#include <string>

#include "ddp/base/system/process_status.h"
#include "launcher/output/console.h"
#include "launcher/verdict/failure.h"

namespace ddp::launcher {

// Which of the endings, given in the order of reaping, is the cause; at least one of them is a
// failure of Ending::When::kFirst. A rank whose record blames a peer is named only if there is no
// other. Candidates are taken first from those that were dying when the first failure was seen,
// then from those that ended before we signalled any worker, then from those that left an error
// record.
//
// Of two failures with records the older record counts: PyTorch's say nothing about peers, and a
// rank that has failed may take longer to end than one that has noticed it.
//
// Without records, death by a signal is preferred to an exit code: a rank that notices its peer's
// death exits with its own code and may be reaped first.
[[nodiscard]] Ending first_cause(std::span<const Ending> endings);

// "rank 3 (host b, pid 4711) was killed by SIGKILL after 12.5 s, in step 457: out of memory (61.0
// GiB resident, limit 64.0 GiB); 7 other ranks stopped because of it"
//
// If the rank has waited in vain for another one: "rank 2 (host a, pid 4712, cpu) has not joined
// all_reduce #457 (...); ...; so rank 3 (host b, pid 4711) timed out, and exited with code 1 ..."
[[nodiscard]] std::string verdict(const WorkerFailure& failure);
[[nodiscard]] std::string verdict(const Failure& failure);

// The launcher's exit code.
[[nodiscard]] int exit_code_after(const Failure& failure);

// Prints the last lines of a failed job: the stderr of the first failed rank, unless that is in
// view; where all of its stderr is; the functions in which it crashed; and the verdict.
void say(Console& console, const Failure& failure);

}  // namespace ddp::launcher
