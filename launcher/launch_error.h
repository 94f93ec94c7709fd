// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/base/error.h"

namespace ddp::launcher {

// The job cannot start: one sentence for the user, and the code to exit with (2, or a shell's 126
// and 127 for a program that cannot be run).
class LaunchError : public Error {
 public:
  explicit LaunchError(const std::string& message, int exit_code = 2)
      : Error(message), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

inline constexpr int kNotExecutableExitCode = 126;
inline constexpr int kNotFoundExitCode = 127;

}  // namespace ddp::launcher
