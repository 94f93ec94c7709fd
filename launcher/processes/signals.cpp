// SPDX-License-Identifier: MIT
#include "launcher/processes/signals.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "ddp/base/error.h"

namespace ddp::launcher {
namespace {

bool is_ignored(int signal_number) {
  struct sigaction action {};
  return ::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Sent by the kernel to the agent when its guardian dies.
int orphan_signal() { return SIGRTMIN; }

// Sent by the guardian: its value is the signal that is passed on. With the original number it
// would merge with a signal sent directly to the agent, and the sender could not be told apart.
int passed_on_signal() { return SIGRTMIN + 1; }

}  // namespace

SignalReader::SignalReader() {
  // With an inherited SIG_IGN the kernel would reap our children itself.
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t read_set;
  sigemptyset(&read_set);
  sigaddset(&read_set, SIGCHLD);
  sigaddset(&read_set, orphan_signal());
  sigaddset(&read_set, passed_on_signal());
  for (const int signal_number : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2}) {
    if (!is_ignored(signal_number)) sigaddset(&read_set, signal_number);
  }
  sigset_t blocked = read_set;
  sigaddset(&blocked, SIGPIPE);
  sigaddset(&blocked, SIGXFSZ);
  sigaddset(&blocked, SIGTTOU);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &original_mask_);
  fd_ = FileDescriptor(::signalfd(-1, &read_set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.is_open()) throw SystemError("cannot make a signalfd", errno);
}

// The guardian may have died before the prctl: then the kernel sends nothing, but the parent has
// changed.
void SignalReader::follow(pid_t guardian) {
  guardian_ = guardian;
  if (::prctl(PR_SET_PDEATHSIG, orphan_signal()) != 0) {
    throw SystemError("cannot ask for the guardian's death signal", errno);
  }
  if (::getppid() != guardian_) ::raise(orphan_signal());
}

std::optional<int> SignalReader::next() {
  if (found_.empty()) return read_one();
  const int first = found_.front();
  found_.erase(found_.begin());
  return first;
}

std::optional<int> SignalReader::find(bool (*ends_wait)(int)) {
  while (const auto signal_number = read_one()) found_.push_back(*signal_number);
  const auto found = std::ranges::find_if(found_, ends_wait);
  return found == found_.end() ? std::nullopt : std::optional(*found);
}

std::optional<int> SignalReader::read_one() {
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (const auto signal_number = meaning_of(info)) return signal_number;
  }
  return std::nullopt;
}

std::optional<int> SignalReader::meaning_of(const signalfd_siginfo& info) {
  const int signal_number = static_cast<int>(info.ssi_signo);
  const bool has_guardian = guardian_ != 0;
  if (signal_number == orphan_signal()) {
    return has_guardian && ::getppid() != guardian_ ? std::optional(SIGKILL) : std::nullopt;
  }
  if (signal_number == passed_on_signal()) {
    const bool is_genuine = has_guardian && static_cast<pid_t>(info.ssi_pid) == guardian_;
    return is_genuine ? std::optional(info.ssi_int) : std::nullopt;
  }
  const bool is_guardians = is_from_keyboard(signal_number) || signal_number == SIGTSTP;
  if (has_guardian && is_guardians) return std::nullopt;
  KeyPress& last = signal_number == SIGQUIT ? last_quit_ : last_interrupt_;
  if (is_from_keyboard(signal_number) && last.is_copy(info.ssi_code)) return std::nullopt;
  return signal_number;
}

// A user may have a limited number of queued signals (ulimit -i), which holds for these, and not
// for what kill(2) sends; but the agent leaves the keyboard's signals to its guardian.
void pass_on(int signal_number, pid_t agent) {
  if (::sigqueue(agent, passed_on_signal(), {.sival_int = signal_number}) == 0) return;
  if (errno == EAGAIN) ::kill(agent, is_from_keyboard(signal_number) ? SIGTERM : signal_number);
}

bool is_from_keyboard(int signal_number) {
  return signal_number == SIGINT || signal_number == SIGQUIT;
}

bool ends_job(int signal_number) { return signal_number != SIGCHLD && signal_number != SIGUSR2; }

bool is_impatient(int signal_number) {
  return is_from_keyboard(signal_number) || signal_number == SIGKILL;
}

int exit_code_after(int signal_number) {
  return 128 + (signal_number == SIGUSR1 ? SIGTERM : signal_number);
}

}  // namespace ddp::launcher
