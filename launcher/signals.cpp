// SPDX-License-Identifier: MIT
#include "launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ddp/base/error.h"

namespace ddp::launcher {
namespace {

bool is_ignored(int signal_number) {
  struct sigaction action {};
  return ::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalReader::SignalReader() {
  // An inherited SIG_IGN would make the kernel reap our children in our stead.
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t read_set;
  sigemptyset(&read_set);
  sigaddset(&read_set, SIGCHLD);
  for (const int signal_number : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2}) {
    if (!is_ignored(signal_number)) sigaddset(&read_set, signal_number);
  }
  sigset_t blocked = read_set;
  sigaddset(&blocked, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &original_mask_);
  fd_ = FileDescriptor(::signalfd(-1, &read_set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.is_open()) throw SystemError("cannot make a signalfd", errno);
}

std::optional<int> SignalReader::next() {
  signalfd_siginfo info{};
  const ssize_t size = ::read(fd_.get(), &info, sizeof(info));
  if (size != static_cast<ssize_t>(sizeof(info))) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

bool ends_job(int signal_number) {
  return signal_number != SIGCHLD && signal_number != SIGUSR1 && signal_number != SIGUSR2;
}

std::string signal_name(int signal_number) {
  const char* name = ::sigabbrev_np(signal_number);
  return name == nullptr ? "signal " + std::to_string(signal_number) : "SIG" + std::string(name);
}

}  // namespace ddp::launcher
