// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "ddp/base/socket.h"

namespace ddp::launcher {

// Turns the signals that concern the agent into something to poll: SIGCHLD, and those of SIGINT,
// SIGTERM, SIGQUIT, SIGHUP, SIGUSR1 and SIGUSR2 that were not ignored on entry (nohup, or a shell's
// "&", must keep their effect). SIGPIPE is blocked: a closed stdout is an error of write(), not our
// death. Make it on the main thread before any other thread, which then inherits the mask. The mask
// stays to the end of the process: a signal that comes late must not change the exit code.
class SignalReader {
 public:
  SignalReader();
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;

  // A signal that has arrived, or nothing. Never blocks.
  [[nodiscard]] std::optional<int> next();

  [[nodiscard]] int fd() const { return fd_.get(); }

  // The mask on entry, which the workers are to start with.
  [[nodiscard]] const sigset_t& original_mask() const { return original_mask_; }

 private:
  FileDescriptor fd_;
  sigset_t original_mask_{};
};

// Whether a signal of a SignalReader stops the job: SIGCHLD is no news, SIGUSR1 and SIGUSR2 are for
// the workers.
[[nodiscard]] bool ends_job(int signal_number);

// "SIGKILL".
[[nodiscard]] std::string signal_name(int signal_number);

}  // namespace ddp::launcher
