// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/error.h"
#include "launcher/prove/equivalence.h"
#include "launcher/prove/options.h"

namespace ddp::prove {

// A run of the program ended with another exit code than 0.
class RunError : public Error {
 public:
  RunError(const std::string& message, int exit_code) : Error(message), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

// With which parameters a program begins: its own, or the same with other last bits.
enum class Start { kOwn, kNudged };

// Runs the program with so many ranks, and returns the steps that its engines have made. Throws
// RunError, or launcher::LaunchError if there were none.
[[nodiscard]] Run record_run(int ranks, const Options& options, Start start = Start::kOwn);

}  // namespace ddp::prove
