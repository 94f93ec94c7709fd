// SPDX-License-Identifier: MIT
#include "support/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "ddp/base/error.h"
#include "support/pipe.h"

namespace ddp::test {
namespace {

constexpr Timeout kTimeout{25000};
constexpr int kReportFd = 3;
constexpr int kAnswerFd = 4;

// Above the numbers that the program uses.
FileDescriptor moved_up(const FileDescriptor& low) {
  return FileDescriptor(::fcntl(low.get(), F_DUPFD_CLOEXEC, 10));
}

Pipe make_high_pipe() {
  const Pipe low = make_pipe();
  return {moved_up(low.read_end), moved_up(low.write_end)};
}

bool wait_readable(int fd, Deadline deadline) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(deadline.remaining().count())) > 0;
}

void write_all(const FileDescriptor& fd, const std::string& text) {
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw SystemError("write", errno);
  }
}

}  // namespace

Terminal::Terminal(const std::vector<std::string>& argv) {
  Pipe report = make_high_pipe();
  Pipe answer = make_high_pipe();
  std::vector<char*> arguments;
  for (const std::string& text : argv) arguments.push_back(const_cast<char*>(text.c_str()));
  arguments.push_back(nullptr);
  int master = -1;
  pid_ = ::forkpty(&master, nullptr, nullptr, nullptr);
  if (pid_ < 0) throw SystemError("forkpty", errno);
  if (pid_ == 0) {
    ::dup2(report.write_end.get(), kReportFd);
    ::dup2(answer.read_end.get(), kAnswerFd);
    // At exit, LeakSanitizer traces its process from another process. If that is a detached
    // launcher, it sometimes hangs: the launcher spins in sched_yield, and its tracer waits.
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    ::execvp(arguments[0], arguments.data());
    ::_exit(99);
  }
  master_ = moved_up(FileDescriptor(master));
  report_ = std::move(report.read_end);
  answer_ = std::move(answer.write_end);
}

Terminal::~Terminal() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Terminal::type(const std::string& keys) { write_all(master_, keys); }

void Terminal::answer(const std::string& text) { write_all(answer_, text); }

// Keeps reading the program's output, so that the program does not block on a full terminal.
int Terminal::wait(Timeout timeout) {
  const Deadline deadline = Deadline::after(timeout);
  const FileDescriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  std::array<char, 4096> shown;
  for (;;) {
    pollfd entries[] = {{pidfd.get(), POLLIN, 0}, {master_.get(), POLLIN, 0}};
    if (::poll(entries, 2, static_cast<int>(deadline.remaining().count())) == 0) {
      throw TimeoutError("the program on the terminal still runs");
    }
    if (entries[0].revents != 0) break;
    if (::read(master_.get(), shown.data(), shown.size()) < 0) master_.reset();
  }
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void Terminal::read_report(const std::string& expected) {
  const Deadline deadline = Deadline::after(kTimeout);
  std::string text;
  while (text.size() < expected.size()) {
    char byte = 0;
    if (!wait_readable(report_.get(), deadline) || ::read(report_.get(), &byte, 1) != 1) break;
    text += byte;
  }
  if (text != expected) throw Error("the report is '" + text + "' and not '" + expected + "'");
}

void Terminal::check_report_ends() {
  char byte = 0;
  if (!wait_readable(report_.get(), Deadline::after(kTimeout))) {
    throw TimeoutError("somebody still lives who could report");
  }
  if (::read(report_.get(), &byte, 1) != 0) throw Error("there is a further report");
}

}  // namespace ddp::test
