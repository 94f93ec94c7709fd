// SPDX-License-Identifier: MIT
#include "ddp/base/system/process_status.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ddp/base/field_lines.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/printable.h"

namespace ddp {
namespace {

constexpr unsigned kPfExiting = 0x4;  // PF_EXITING, include/linux/sched.h
constexpr std::size_t kLongestCommand = 80;

std::string command_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::string command{std::istreambuf_iterator<char>(file), {}};
  while (command.ends_with('\0')) command.pop_back();
  return shortened(printable(command), kLongestCommand);
}

// Of a process or of a thread.
std::optional<ProcessStat> read_stat(const std::string& folder) {
  const FileDescriptor file(::open((folder + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size <= 0) return std::nullopt;
  return parse_process_stat({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace

std::string signal_name(int signal_number) {
  const char* name = ::sigabbrev_np(signal_number);
  return name == nullptr ? "signal " + std::to_string(signal_number) : "SIG" + std::string(name);
}

std::string describe_status(int status) {
  if (!WIFSIGNALED(status)) return "exited with code " + std::to_string(WEXITSTATUS(status));
  const int signal_number = WTERMSIG(status);
  std::string text = "was killed by " + signal_name(signal_number);
  if (WCOREDUMP(status)) text += " (core dumped)";
  const bool is_request = signal_number == SIGUSR1 || signal_number == SIGUSR2;
  if (is_request) text += " (it had no handler, such as a SignalGuard)";
  return text;
}

std::optional<int> wait_for_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  return status;
}

ReapableChildren::ReapableChildren() {
  ::sigaction(SIGCHLD, nullptr, &before_);
  struct sigaction own = before_;
  if (own.sa_handler == SIG_IGN) own.sa_handler = SIG_DFL;
  own.sa_flags &= ~SA_NOCLDWAIT;
  ::sigaction(SIGCHLD, &own, nullptr);
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool ProcessStat::is_exiting() const { return is_zombie() || (flags & kPfExiting) != 0; }

// "pid (name) state ppid pgrp session tty tpgid flags", ten more numbers, "num_threads itrealvalue
// starttime …"; the name may hold blanks and brackets.
std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  ProcessStat result;
  std::string skipped;
  WordReader before(std::string(text.substr(0, text.find(' '))));
  WordReader after(std::string(text.substr(name_end + 1)));
  if (!(before >> result.pid)) return std::nullopt;
  after >> result.state >> result.parent >> result.group >> skipped >> skipped >> skipped >>
      result.flags;
  for (int i = 0; i < 10; ++i) after >> skipped;
  if (!(after >> result.threads >> skipped >> result.start_time)) return std::nullopt;
  return result;
}

std::optional<ProcessStat> read_process(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::optional<ProcessStat> process = read_stat(folder);
  if (!process || !process->is_zombie() || process->threads < 2) return process;
  std::error_code error;
  std::filesystem::directory_iterator thread(folder + "/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    const auto other = read_stat(thread->path());
    if (!other || other->is_exiting()) continue;
    process->state = other->state;
    process->flags = other->flags;
    break;
  }
  return process;
}

std::string describe_process(pid_t pid) {
  return "pid " + std::to_string(pid) + " (" + command_of(pid) + ")";
}

// The parent may have died before the prctl: then the death signal never comes, but the parent has
// changed.
bool die_with(pid_t parent, int signal_number) {
  return ::prctl(PR_SET_PDEATHSIG, signal_number) == 0 && ::getppid() == parent;
}

}  // namespace ddp
