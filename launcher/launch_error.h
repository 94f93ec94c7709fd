// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

namespace ddp::launcher {

// The job cannot start: one sentence for the user, and the code to exit with (2, or a shell's 126
// and 127 for a program that cannot be run). It is no ddp::Error, since those that try again after
// one of these must not catch it: it may also say that a signal has ended the wait.
class LaunchError : public std::runtime_error {
 public:
  explicit LaunchError(const std::string& message, int exit_code = 2)
      : std::runtime_error(message), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

inline constexpr int kNotExecutableExitCode = 126;
inline constexpr int kNotFoundExitCode = 127;

}  // namespace ddp::launcher
