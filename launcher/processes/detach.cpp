// SPDX-License-Identifier: MIT
#include "launcher/processes/detach.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/poll_until.h"
#include "ddp/base/socket.h"
#include "ddp/base/write_all.h"
#include "launcher/launch_error.h"
#include "launcher/processes/signals.h"
#include "launcher/verdict/verdict.h"

namespace ddp::launcher {
namespace {

std::string log_path(const std::string& folder, pid_t pid) {
  return fmt::format("{}/ddp-launch-{}.log", folder, pid);
}

void put(int fd, std::string_view text) {
  // Errors are ignored, since there is nobody to report them to.
  static_cast<void>(write_all(fd, text));
}

void leave_terminal(const std::string& path) {
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const FileDescriptor log(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (!log.is_open()) {
    throw LaunchError(fmt::format("--detach: cannot write '{}': {}", path, error_text(errno)));
  }
  ::setsid();
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(log.get(), STDOUT_FILENO);
  ::dup2(log.get(), STDERR_FILENO);
}

int run_in_child(const std::string& folder, FileDescriptor report,
                 const std::function<int(const ReportStart&)>& job) {
  leave_terminal(log_path(folder, ::getpid()));
  return job([&report] {
    if (report.is_open()) put(report.get(), "\n");
    report.reset();
  });
}

// True once the job has reported its start; false if it ended before. Closing the terminal
// meanwhile does not matter, since the job is meant to outlive it.
bool has_started(pid_t job, const FileDescriptor& report) {
  SignalReader signals;
  for (;;) {
    std::array<pollfd, 2> entries = {{{report.get(), POLLIN, 0}, {signals.fd(), POLLIN, 0}}};
    poll_until(entries, std::nullopt);
    while (const auto signal_number = signals.next()) {
      if (*signal_number != SIGCHLD && *signal_number != SIGHUP) ::kill(job, *signal_number);
    }
    char byte = 0;
    if (entries[0].revents != 0) return ::read(report.get(), &byte, 1) == 1;
  }
}

// Prints the job's output and returns its exit code. The file is no longer needed.
int refuse(pid_t job, const std::string& path) {
  int status = 0;
  while (::waitpid(job, &status, 0) < 0 && errno == EINTR) {
  }
  const FileDescriptor log(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer;
  for (ssize_t size = 0; (size = ::read(log.get(), buffer.data(), buffer.size())) > 0;) {
    put(STDERR_FILENO, {buffer.data(), static_cast<std::size_t>(size)});
  }
  ::unlink(path.c_str());
  return exit_code_of(status);
}

}  // namespace

int run_detached(const std::string& folder, const std::function<int(const ReportStart&)>& job) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
  const FileDescriptor started(fds[0]);
  FileDescriptor report(fds[1]);
  const pid_t pid = ::fork();
  if (pid < 0) throw SystemError("cannot fork a process to go on in the background", errno);
  if (pid == 0) return run_in_child(folder, std::move(report), job);
  report.reset();
  const std::string path = log_path(folder, pid);
  if (!has_started(pid, started)) return refuse(pid, path);
  put(STDOUT_FILENO, fmt::format("ddp-launch: pid {}, log file {}\n", pid, path));
  return 0;
}

}  // namespace ddp::launcher
