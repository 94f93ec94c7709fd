// SPDX-License-Identifier: MIT
#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <csignal>
#include <optional>
#include <vector>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/system/key_press.h"
#include "ddp/base/system/process_status.h"

namespace ddp::launcher {

// Turns the agent's signals into something to poll: SIGCHLD, and those of SIGINT, SIGTERM, SIGQUIT,
// SIGHUP, SIGTSTP, SIGUSR1 and SIGUSR2 that were not ignored on entry (nohup, or a shell's "&",
// must keep their effect). SIGPIPE and SIGXFSZ are blocked, so that a closed stdout, or a log file
// beyond ulimit -f, is an error of write() and does not kill us; so is SIGTTOU, since the agent
// writes to a terminal from the background.
// Construct it on the main thread before any other thread, so that threads inherit the mask. The
// mask stays until the process ends, so that a late signal does not change the exit code.
class SignalReader {
 public:
  SignalReader();
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;

  // For the agent, a forked child: from now on the reader reads the child's own signals. Keyboard
  // signals then count only if the guardian passes them on (a scheduler may signal every process of
  // a job), SIGTSTP is handled only by the guardian, and next() returns SIGKILL once the guardian
  // is dead.
  void follow(pid_t guardian);

  // A signal that has arrived, or nothing. Never blocks. A press of Ctrl-C is one signal, also
  // behind a wrapper that passes its own on.
  [[nodiscard]] std::optional<int> next();

  // For a wait that only some signals end: the first that has arrived for which `ends_wait` holds.
  // next() still returns all of them, in their order, but fd() no longer announces them.
  [[nodiscard]] std::optional<int> find(bool (*ends_wait)(int));

  [[nodiscard]] int fd() const { return fd_.get(); }

  // The mask on entry; workers start with it.
  [[nodiscard]] const sigset_t& original_mask() const { return original_mask_; }

 private:
  [[nodiscard]] std::optional<int> read_one();
  [[nodiscard]] std::optional<int> meaning_of(const signalfd_siginfo& info);

  FileDescriptor fd_;
  sigset_t original_mask_{};
  pid_t guardian_ = 0;       // 0: follows none
  KeyPress last_interrupt_;  // SIGINT
  KeyPress last_quit_;       // SIGQUIT
  std::vector<int> found_;   // have been read, but not returned by next()
};

// Whether a signal from a SignalReader ends a job that currently has no workers. SIGCHLD and
// SIGUSR2, which is for the workers, do not.
[[nodiscard]] bool ends_job(int signal_number);

// Whether it ends even short waits, such as those for other nodes at the job's end: a person is
// impatient, or the guardian is dead.
[[nodiscard]] bool is_impatient(int signal_number);

// The launcher's exit code after a signal has ended the job: 128 + its number. SIGUSR1 counts as
// SIGTERM.
[[nodiscard]] int exit_code_after(int signal_number);

// Sends `signal_number` from the guardian to the agent, whose next() then returns it.
void pass_on(int signal_number, pid_t agent);

// True for signals that a person sends: SIGINT (Ctrl-C) and SIGQUIT.
[[nodiscard]] bool is_from_keyboard(int signal_number);

}  // namespace ddp::launcher
