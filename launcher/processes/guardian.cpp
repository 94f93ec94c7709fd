// SPDX-License-Identifier: MIT
#include "launcher/processes/guardian.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/net/poll_until.h"
#include "ddp/base/system/write_all.h"
#include "launcher/processes/process_tree.h"

namespace ddp::launcher {
namespace {

// Children that this process had before, because a shell with children exec'ed it. Usually waitpid
// says ECHILD, and /proc need not be read.
std::vector<pid_t> children_before_the_job() {
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return {};
  std::vector<pid_t> pids;
  for (const ProcessStat& process : living_descendants(::getpid(), {})) pids.push_back(process.pid);
  return pids;
}

// Does what Ctrl-Z does by default. If no shell could continue us the kernel ignores the signal,
// and this returns at once. SIGTSTP is blocked before and after.
void stop_this_process() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// A scheduler may stop and continue all processes of a job.
constexpr Timeout kStopPatience{1000};

void say(const std::string& sentence) {
  // Errors are ignored, since there is nobody to report them to.
  static_cast<void>(write_all(STDERR_FILENO, "ddp-launch: " + sentence + "\n"));
}

class Guardian {
 public:
  Guardian(pid_t agent, SignalReader& signals, std::vector<pid_t> foreign)
      : agent_(agent), signals_(signals), foreign_(std::move(foreign)) {}

  // Returns the agent's wait status.
  int wait_for_agent() {
    while (!status_) {
      wait_for_signal(complaint_);
      while (const auto signal_number = signals_.next()) {
        handle(*signal_number);
      }
      reap();
      if (complaint_ && complaint_->passed()) complain();
    }
    return *status_;
  }

  // Kills what the agent has left behind, repeatedly, as orphans appear.
  void clean_up() {
    const Deadline end = Deadline::after(kKillTimeout);
    while (has_children_ && !end.passed()) {
      const std::vector<ProcessStat> left = living_descendants(::getpid(), foreign_);
      if (left.empty()) return;
      for (const ProcessStat& process : left) ::kill(process.pid, SIGKILL);
      wait_for_signal(Deadline::after(kKillInterval));
      while (signals_.next()) {
      }
      reap();
    }
  }

 private:
  void handle(int signal_number) const {
    if (signal_number == SIGTSTP) return suspend();
    if (signal_number == SIGCHLD) return;
    pass_on(signal_number, agent_);
    ::kill(agent_, SIGCONT);  // it must hear of it
  }

  // Nobody else watches the job meanwhile.
  void complain() {
    complaint_.reset();
    const auto agent = read_process(agent_);
    if (!agent || !agent->is_stopped()) return;
    say(fmt::format("the agent (pid {0}) is stopped: kill -CONT {0} continues it", agent_));
  }

  // Suspends the workers until SIGCONT. The agent keeps running: it tells the other nodes that this
  // one is alive, and must be there for the workers if the guardian is killed meanwhile.
  void suspend() const {
    signal_workers(SIGSTOP);
    stop_this_process();
    signal_workers(SIGCONT);
  }

  void signal_workers(int signal_number) const {
    for (const ProcessStat& process : living_descendants(::getpid(), foreign_)) {
      if (process.pid != agent_) ::kill(process.pid, signal_number);
    }
  }

  void wait_for_signal(std::optional<Deadline> deadline) const {
    pollfd entry{signals_.fd(), POLLIN, 0};
    poll_until({&entry, 1}, deadline);
  }

  void reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED);
      if (pid == agent_ && WIFSTOPPED(status)) {
        complaint_ = Deadline::after(kStopPatience);
      } else if (pid == agent_) {
        status_ = status;
      }
      has_children_ = pid >= 0 || errno != ECHILD;
      if (pid <= 0) return;
    }
  }

  pid_t agent_;
  SignalReader& signals_;
  std::vector<pid_t> foreign_;
  std::optional<int> status_;
  std::optional<Deadline> complaint_;  // if the agent is still stopped then
  bool has_children_ = true;
};

// 0 without /proc, or if argv was moved; the command line then stays as it is.
std::size_t command_line_size() {
  const FileDescriptor file(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer;
  std::size_t size = 0;
  ssize_t got = 0;
  while ((got = ::read(file.get(), buffer.data(), buffer.size())) > 0) {
    size += static_cast<std::size_t>(got);
  }
  return size;
}

// "killall -9 ddp-launch" matches the first name; "pkill -9 -f train" matches the second, which is
// stored where the arguments are.
void rename_process(std::string_view name) {
  ::prctl(PR_SET_NAME, name.data());
  const std::span<char> command_line(program_invocation_name, command_line_size());
  if (command_line.size() <= name.size()) return;
  std::ranges::fill(command_line, '\0');
  std::ranges::copy(name, command_line.begin());
}

int watch(pid_t agent, SignalReader& signals, std::vector<pid_t> foreign, const OnDeath& on_death) {
  Guardian guardian(agent, signals, std::move(foreign));
  const int status = guardian.wait_for_agent();
  guardian.clean_up();
  if (WIFSIGNALED(status)) {
    const std::string death = fmt::format("the agent (pid {}) {}", agent, describe_status(status));
    say(death + "; the job was killed");
    on_death(agent, death);
  }
  return exit_code_of(status);
}

}  // namespace

int run_guarded(SignalReader& signals, const std::function<int()>& agent, const OnDeath& on_death) {
  std::vector<pid_t> foreign = children_before_the_job();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t guardian = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw SystemError("cannot fork the agent", errno);
  if (pid == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    rename_process("ddp-agent");
    signals.follow(guardian);
    return agent();
  }
  ::setpgid(pid, pid);  // also in the child, since either may run first
  return watch(pid, signals, std::move(foreign), on_death);
}

}  // namespace ddp::launcher
