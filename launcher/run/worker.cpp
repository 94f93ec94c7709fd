// SPDX-License-Identifier: MIT
#include "launcher/run/worker.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/net/poll_until.h"
#include "ddp/base/system/process_status.h"
#include "ddp/base/time.h"
#include "launcher/launch_error.h"
#include "launcher/processes/pipe.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::seconds kExecTimeout{60};

void make_non_blocking(const FileDescriptor& fd) {
  if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) {
    throw SystemError("cannot make a worker's pipe non-blocking", errno);
  }
}

std::vector<char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that the child needs between fork and exec is prepared before: another thread may have
// held the allocator's lock at the moment of the fork, so only async-signal-safe calls are allowed.
struct ChildPlan {
  const char* path;
  char* const* argv;
  char* const* envp;
  const sigset_t* signal_mask;
  std::span<const unsigned long> cpus;  // the affinity mask to set; empty: leave it as it is
  const rlimit* descriptors;            // null: leave the limit as it is
  pid_t agent;
  int stdin_fd;
  int stdout_fd;
  int stderr_fd;
  int exec_status_fd;
};

bool redirect(const ChildPlan& plan) {
  return ::dup2(plan.stdin_fd, STDIN_FILENO) >= 0 && ::dup2(plan.stdout_fd, STDOUT_FILENO) >= 0 &&
         ::dup2(plan.stderr_fd, STDERR_FILENO) >= 0;
}

bool stay_on_cpus(const ChildPlan& plan) {
  const auto* const set = reinterpret_cast<const cpu_set_t*>(plan.cpus.data());
  return plan.cpus.empty() || ::sched_setaffinity(0, plan.cpus.size_bytes(), set) == 0;
}

void limit_descriptors(const ChildPlan& plan) {
  if (plan.descriptors != nullptr) ::setrlimit(RLIMIT_NOFILE, plan.descriptors);
}

// For a file that exists although exec reports a missing one.
const char* hint_for_missing_interpreter(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return "";
  std::string first_line;
  std::getline(std::ifstream(path), first_line);
  const bool is_from_windows = first_line.starts_with("#!") && first_line.ends_with('\r');
  return is_from_windows
             ? " (its first line ends with a carriage return, as Windows writes it: dos2unix)"
             : " (the interpreter of its first line is missing)";
}

// On failure the parent reads an errno value from the pipe; it is negative if exec was not the call
// that failed.
[[noreturn]] void become_worker(const ChildPlan& plan) {
  // Without a terminal: a background process that reads it, or asks there for a password, would be
  // stopped for ever.
  ::setsid();
  const bool has_cpus = stay_on_cpus(plan);
  if (has_cpus && die_with(plan.agent) && redirect(plan)) {
    limit_descriptors(plan);
    ::sigprocmask(SIG_SETMASK, plan.signal_mask, nullptr);
    ::execve(plan.path, plan.argv, plan.envp);
  }
  const int error = has_cpus ? errno : -errno;
  // Errors are ignored, since there is nobody to report them to.
  [[maybe_unused]] const ssize_t written = ::write(plan.exec_status_fd, &error, sizeof(error));
  ::_exit(kNotFoundExitCode);
}

}  // namespace

Worker Worker::start(const WorkerSpec& spec) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe exec_status = make_pipe();
  make_non_blocking(out.read_end);
  make_non_blocking(err.read_end);
  const std::vector<char*> argv = c_strings(spec.command.argv);
  const std::vector<char*> envp = c_strings(spec.environment);
  const std::vector<unsigned long> cpus = affinity_mask(spec.cpus);
  const ChildPlan plan{.path = spec.command.path.c_str(),
                       .argv = argv.data(),
                       .envp = envp.data(),
                       .signal_mask = &spec.signal_mask,
                       .cpus = cpus,
                       .descriptors = spec.descriptors ? &*spec.descriptors : nullptr,
                       .agent = ::getpid(),
                       .stdin_fd = spec.stdin_fd,
                       .stdout_fd = out.write_end.get(),
                       .stderr_fd = err.write_end.get(),
                       .exec_status_fd = exec_status.write_end.get()};
  const pid_t pid = ::fork();
  if (pid == 0) become_worker(plan);
  if (pid < 0)
    throw SystemError(fmt::format("cannot fork the worker of rank {}", spec.rank), errno);
  Worker worker(spec, pid);
  worker.stdout_ = std::move(out.read_end);
  worker.stderr_ = std::move(err.read_end);
  worker.exec_status_ = std::move(exec_status.read_end);
  return worker;
}

Worker::Worker(Worker&& other) noexcept
    : rank_(other.rank_),
      local_rank_(other.local_rank_),
      pid_(std::exchange(other.pid_, 0)),
      status_(other.status_),
      stdout_(std::move(other.stdout_)),
      stderr_(std::move(other.stderr_)),
      exec_status_(std::move(other.exec_status_)) {}

Worker::~Worker() {
  if (pid_ == 0 || has_ended()) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);              // it may not lead its group yet
  ::waitpid(pid_, nullptr, WNOHANG);  // does not wait for a child that is stuck in the kernel
}

std::optional<int> Worker::wait_for_exec(const Command& command, SignalReader& signals) {
  const Deadline deadline = Deadline::after(kExecTimeout);
  std::array<pollfd, 2> entries = {{{exec_status_.get(), POLLIN, 0}, {signals.fd(), POLLIN, 0}}};
  while (poll_until(entries, deadline) && entries[0].revents == 0) {
    if (const auto signal_number = signals.find(ends_job)) return signal_number;
  }
  if (entries[0].revents == 0) {
    throw LaunchError(
        fmt::format("cannot run '{}': rank {} (pid {}) was not loaded in {} s; does its "
                    "file system hang?",
                    command.path, rank_, pid_, kExecTimeout.count()),
        kNotExecutableExitCode);
  }
  int error = 0;
  const ssize_t size = ::read(exec_status_.get(), &error, sizeof(error));
  exec_status_.reset();
  if (size != static_cast<ssize_t>(sizeof(error))) return std::nullopt;  // closed by exec
  if (error < 0) {
    throw LaunchError(fmt::format("--bind: rank {} (pid {}) cannot be kept on its CPUs: {}", rank_,
                                  pid_, error_text(-error)));
  }
  const char* hint = error == ENOENT ? hint_for_missing_interpreter(command.path) : "";
  throw LaunchError(fmt::format("cannot run '{}': {}{}", command.path, error_text(error), hint),
                    error == ENOENT ? kNotFoundExitCode : kNotExecutableExitCode);
}

}  // namespace ddp::launcher
