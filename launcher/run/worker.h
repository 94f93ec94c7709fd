// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <optional>

#include "ddp/base/file_descriptor.h"
#include "launcher/options/command.h"
#include "launcher/placement/cpu_list.h"
#include "launcher/plan/environment.h"
#include "launcher/processes/signals.h"

namespace ddp::launcher {

struct WorkerSpec {
  int rank = 0;
  int local_rank = 0;
  const Command& command;
  const EnvironmentBlock& environment;
  const sigset_t& signal_mask;
  CpuList cpus = {};                       // to bind it to; empty: not bound
  std::optional<rlimit> descriptors = {};  // nothing: inherited
  int stdin_fd = -1;
};

// One worker process: a direct child, leader of its own session and process group, killed by the
// kernel when the thread that started it dies. Its stdout and stderr are pipes that the launcher
// reads. Until record_end() its pid and group cannot be reused; the destructor kills the group if
// the worker has not ended.
class Worker {
 public:
  // Forks, and returns at once so that several workers start in parallel. Call it on the main
  // thread: PR_SET_PDEATHSIG follows the forking thread. Throws SystemError.
  static Worker start(const WorkerSpec& spec);

  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&&) = delete;
  ~Worker();

  // Waits until the child has executed the program, or a signal has come that ends the job: returns
  // that one, and next() still returns it. Throws LaunchError if exec failed.
  [[nodiscard]] std::optional<int> wait_for_exec(const Command& command, SignalReader& signals);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool has_ended() const { return status_.has_value(); }
  [[nodiscard]] int status() const { return status_.value(); }  // as waitpid(2) gives it
  void record_end(int status) { status_ = status; }

  // The read ends of the pipes, non-blocking. Each can be taken once.
  [[nodiscard]] FileDescriptor take_stdout() { return std::move(stdout_); }
  [[nodiscard]] FileDescriptor take_stderr() { return std::move(stderr_); }

 private:
  Worker(const WorkerSpec& spec, pid_t pid)
      : rank_(spec.rank), local_rank_(spec.local_rank), pid_(pid) {}

  int rank_;
  int local_rank_;
  pid_t pid_;  // 0 after a move
  std::optional<int> status_;
  FileDescriptor stdout_;
  FileDescriptor stderr_;
  FileDescriptor exec_status_;
};

}  // namespace ddp::launcher
