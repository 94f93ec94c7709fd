// SPDX-License-Identifier: MIT
#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <csignal>
#include <optional>

#include "ddp/base/process_status.h"
#include "ddp/base/socket.h"

namespace ddp::launcher {

// Turns the signals that concern the agent into something to poll: SIGCHLD, and those of SIGINT,
// SIGTERM, SIGQUIT, SIGHUP, SIGTSTP, SIGUSR1 and SIGUSR2 that were not ignored on entry (nohup, or
// a shell's "&", must keep their effect). SIGPIPE is blocked: a closed stdout is an error of
// write(), not our death. So is SIGTTOU: the agent writes to a terminal from the background. Make
// it on the main thread before any other thread, which then inherits the mask. The mask stays to
// the end of the process: a signal that comes late must not change the exit code.
class SignalReader {
 public:
  SignalReader();
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;

  // For the agent, a forked child, in which the reader reads the child's own signals. Those of the
  // keyboard then count only if the guardian passes them on (a scheduler may signal every process
  // of a job), SIGTSTP is the guardian's alone, and next() says SIGKILL once the guardian is no
  // more.
  void follow(pid_t guardian);

  // A signal that has arrived, or nothing. Never blocks.
  [[nodiscard]] std::optional<int> next();

  [[nodiscard]] int fd() const { return fd_.get(); }

  // The mask on entry, which the workers are to start with.
  [[nodiscard]] const sigset_t& original_mask() const { return original_mask_; }

 private:
  [[nodiscard]] std::optional<int> meaning_of(const signalfd_siginfo& info) const;

  FileDescriptor fd_;
  sigset_t original_mask_{};
  pid_t guardian_ = 0;  // 0: none to follow
};

// Whether a signal of a SignalReader ends a job that has no workers at the time: SIGCHLD is no
// news, and SIGUSR2 is for the workers.
[[nodiscard]] bool ends_job(int signal_number);

// The launcher's, once a signal has ended the job: 128 + its number; SIGUSR1 asks for what SIGTERM
// does.
[[nodiscard]] int exit_code_after(int signal_number);

// From the guardian to the agent, whose next() then says `signal_number`.
void pass_on(int signal_number, pid_t agent);

// Those that a person sends: SIGINT (Ctrl-C) and SIGQUIT.
[[nodiscard]] bool is_from_keyboard(int signal_number);

}  // namespace ddp::launcher
