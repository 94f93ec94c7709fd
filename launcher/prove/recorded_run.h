// SPDX-License-Identifier: MIT
#pragma once

#include "launcher/prove/equivalence.h"
#include "launcher/prove/options.h"

namespace ddp::prove {

// What ddp-prove exits with, in place of the run's own exit code where that would say kDiffer.
inline constexpr int kDiffer = 1;
inline constexpr int kFailed = 2;

// With which parameters a program begins: its own, or these with their last bits changed.
enum class Start { kOwn, kNudged };

// Runs the program with so many ranks, and returns the steps that its engines have made. Throws
// launcher::LaunchError if there were none, or if the program failed.
[[nodiscard]] Run record_run(int ranks, const Options& options, Start start = Start::kOwn);

}  // namespace ddp::prove
