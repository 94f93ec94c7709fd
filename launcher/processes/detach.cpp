// SPDX-License-Identifier: MIT
#include "launcher/processes/detach.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/net/poll_until.h"
#include "ddp/base/system/process_status.h"
#include "ddp/base/system/write_all.h"
#include "ddp/base/time.h"
#include "launcher/launch_error.h"
#include "launcher/processes/pipe.h"
#include "launcher/processes/signals.h"

namespace ddp::launcher {
namespace {

constexpr int kMaxLogsOfOnePid = 10000;

struct JobLog {
  std::string path;
  FileDescriptor file;
};

// FOLDER/ddp-launch-PID.log, or ddp-launch-PID_2.log … if there is one: pids repeat, soon in
// containers, and an older job's output must not be overwritten.
JobLog make_log(const std::filesystem::path& folder) {
  const std::string name = fmt::format("ddp-launch-{}", ::getpid());
  std::string path = folder / (name + ".log");
  for (int job = 2;; ++job) {
    FileDescriptor file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (file.is_open()) return {path, std::move(file)};
    if (errno != EEXIST || job >= kMaxLogsOfOnePid) {
      throw LaunchError(fmt::format("--detach: cannot write '{}': {}", path, error_text(errno)));
    }
    path = folder / fmt::format("{}_{}.log", name, job);
  }
}

void put(int fd, std::string_view text) {
  // Errors are ignored, since there is nobody to report them to.
  static_cast<void>(write_all(fd, text));
}

void leave_terminal(const FileDescriptor& log) {
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::setsid();
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(log.get(), STDOUT_FILENO);
  ::dup2(log.get(), STDERR_FILENO);
}

// What the child reports to the foreground process: the path of its log, and once the job has
// started, kStarted. A path has no such byte.
constexpr char kStarted = '\0';

int run_in_child(const std::string& folder, FileDescriptor report,
                 const std::function<int(const ReportStart&)>& job) {
  JobLog log = make_log(folder);
  leave_terminal(log.file);
  log.file.reset();
  put(report.get(), log.path);
  return job([&report] {
    if (report.is_open()) put(report.get(), {&kStarted, 1});
    report.reset();
  });
}

// A start that takes longer, perhaps until the other nodes are there.
constexpr Timeout kSlowStart = std::chrono::seconds(2);

// The job as the foreground process sees it until it has started.
class StartingJob {
 public:
  StartingJob(pid_t pid, FileDescriptor report) : pid_(pid), report_(std::move(report)) {}

  // Prints pid and log file. False if the job ends before it has started.
  [[nodiscard]] bool wait_for_start() {
    const Deadline slow = Deadline::after(kSlowStart);
    while (!has_started_) {
      std::array<pollfd, 2> entries = {{{report_.get(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}}};
      const bool may_announce = !is_announced_ && !log_.empty();
      poll_until(entries, may_announce ? std::optional(slow) : std::nullopt);
      pass_on_signals();
      if (entries[0].revents != 0 && !read_report()) return false;
      if (has_started_ || slow.passed()) announce();
    }
    return true;
  }

  // Prints the job's output and returns its exit code. The file stays only if it has been
  // announced.
  [[nodiscard]] int refuse() const {
    const std::optional<int> status = wait_for_child(pid_);
    const FileDescriptor log(::open(log_.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> buffer;
    for (ssize_t size = 0; (size = ::read(log.get(), buffer.data(), buffer.size())) > 0;) {
      put(STDERR_FILENO, {buffer.data(), static_cast<std::size_t>(size)});
    }
    if (!is_announced_) ::unlink(log_.c_str());
    return status ? exit_code_of(*status) : EXIT_FAILURE;
  }

 private:
  // Closing the terminal does not matter, since the job is meant to outlive it.
  void pass_on_signals() {
    while (const auto signal_number = signals_.next()) {
      if (*signal_number != SIGCHLD && *signal_number != SIGHUP) ::kill(pid_, *signal_number);
    }
  }

  // False at its end.
  bool read_report() {
    std::array<char, 4096> buffer;
    const ssize_t size = ::read(report_.get(), buffer.data(), buffer.size());
    if (size <= 0) return false;
    log_.append(buffer.data(), static_cast<std::size_t>(size));
    has_started_ = log_.ends_with(kStarted);
    if (has_started_) log_.pop_back();
    return true;
  }

  void announce() {
    if (log_.empty() || std::exchange(is_announced_, true)) return;
    put(STDOUT_FILENO, fmt::format("ddp-launch: pid {}, log file {}\n", pid_, log_));
  }

  pid_t pid_;
  FileDescriptor report_;
  SignalReader signals_;
  std::string log_;  // its path
  bool has_started_ = false;
  bool is_announced_ = false;
};

}  // namespace

int run_detached(const std::string& folder, const std::function<int(const ReportStart&)>& job) {
  auto [started, report] = make_pipe();
  const pid_t pid = ::fork();
  if (pid < 0) throw SystemError("cannot fork a process to go on in the background", errno);
  if (pid == 0) return run_in_child(folder, std::move(report), job);
  report.reset();
  StartingJob starting(pid, std::move(started));
  return starting.wait_for_start() ? 0 : starting.refuse();
}

}  // namespace ddp::launcher
