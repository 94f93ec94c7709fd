// SPDX-License-Identifier: MIT
#include "launch/command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/time.h"

namespace ddp::bench {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

// Where the output of a command goes: to a descriptor, or to /dev/null.
class Output {
 public:
  Output() : Output(-1) {}
  explicit Output(int stdout_fd) {
    ::posix_spawn_file_actions_init(&actions_);
    if (stdout_fd < 0) {
      ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    } else {
      ::posix_spawn_file_actions_adddup2(&actions_, stdout_fd, STDOUT_FILENO);
    }
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  ~Output() { ::posix_spawn_file_actions_destroy(&actions_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

pid_t spawn(const std::vector<std::string>& command, const Output& output) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, arguments[0], output.get(), nullptr, arguments.data(), environ);
  if (error != 0) throw SystemError("cannot start " + command[0], error);
  return pid;
}

// OpenMPI 4.1 sometimes waits forever for workers that have ended.
constexpr Timeout kPatience = std::chrono::seconds(20);

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw SystemError("cannot wait for a command", errno);
  }
  return status;
}

// Kills the process if it still runs after kPatience; the destructor cancels this.
class Limit {
 public:
  explicit Limit(pid_t pid) : pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
    timer_ = std::jthread([fd = pidfd_.get()](const std::stop_token& stop) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any condition;
      condition.wait_for(lock, stop, kPatience, [] { return false; });
      if (!stop.stop_requested()) ::syscall(SYS_pidfd_send_signal, fd, SIGKILL, nullptr, 0);
    });
  }

 private:
  FileDescriptor pidfd_;
  std::jthread timer_;
};

void expect_success(const std::vector<std::string>& command, pid_t pid) {
  const int status = wait_for(pid);
  if (status != 0) throw Error(command[0] + " failed with wait status " + std::to_string(status));
}

std::int64_t count_lines(const FileDescriptor& fd) {
  std::vector<char> buffer(std::size_t{1} << 16);
  std::int64_t lines = 0;
  for (ssize_t size = 0; (size = ::read(fd.get(), buffer.data(), buffer.size())) > 0;) {
    lines += std::count(buffer.begin(), buffer.begin() + size, '\n');
  }
  return lines;
}

}  // namespace

double run_milliseconds(const std::vector<std::string>& command) {
  const Output nowhere;
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = spawn(command, nowhere);
  const Limit limit(pid);
  expect_success(command, pid);
  return Milliseconds(std::chrono::steady_clock::now() - start).count();
}

CountedOutput run_counting_lines(const std::vector<std::string>& command) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
  const FileDescriptor read_end(fds[0]);
  FileDescriptor write_end(fds[1]);
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = spawn(command, Output(write_end.get()));
  const Limit limit(pid);
  write_end.reset();
  const std::int64_t lines = count_lines(read_end);
  expect_success(command, pid);
  return {lines, Milliseconds(std::chrono::steady_clock::now() - start).count()};
}

RunningCommand::RunningCommand(const std::vector<std::string>& command)
    : pid_(spawn(command, Output())) {}

RunningCommand::~RunningCommand() {
  ::kill(pid_, SIGTERM);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ddp::bench
