// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "launcher/run/generation.h"
#include "launcher/run/job.h"
#include "launcher/run/restart_policy.h"
#include "launcher/verdict/failure.h"

namespace ddp::launcher {

// Runs a job's part on this machine, restarts it after failures if restarts are allowed, and prints
// the verdict.
class Agent {
 public:
  explicit Agent(const Job& job) : job_(job), restarts_(job.plan.max_restarts) {}

  // Returns the launcher's exit code once no process of the job is left: 0, the code of the first
  // failure, or 128 + the signal that stopped the job. Call it once, on the main thread. Throws
  // LaunchError or SystemError if a worker cannot be started; in that case no worker is left, and
  // the caller must still tell the other nodes, if any.
  int run();

 private:
  [[nodiscard]] int run_generations();
  [[nodiscard]] Outcome run_generation();
  [[nodiscard]] Outcome run_again(Timeout delay);
  [[nodiscard]] Outcome wait_for_restart(Timeout delay);
  [[nodiscard]] Outcome give_up_restart(int signal_number);
  [[nodiscard]] std::optional<Failure> agree_on_failure(const Outcome& outcome);
  [[nodiscard]] std::string find_lost_node(const Outcome& outcome);
  [[nodiscard]] NodeFailure describe_silence();
  [[nodiscard]] NodeFailure describe_signal(int signal_number) const;
  void pass_on(const Failure& failure) const;
  [[nodiscard]] std::optional<Timeout> delay_of_restart(const Outcome& outcome,
                                                        const std::optional<Failure>& failure);
  void decline_restart();
  void begin_next_generation();
  void open_generation();
  void wait_while_suspended();
  void drain_console();
  void tell_end(int exit_code);

  Job job_;
  Clock::time_point start_ = Clock::now();
  RestartPolicy restarts_;
  int restart_count_ = 0;
  bool is_interrupted_ = false;
};

}  // namespace ddp::launcher
