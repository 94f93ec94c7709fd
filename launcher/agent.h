// SPDX-License-Identifier: MIT
#pragma once

#include "launcher/console.h"
#include "launcher/environment.h"
#include "launcher/generation.h"
#include "launcher/signals.h"

namespace ddp::launcher {

// Runs a job's part on this machine and says how it ended.
class Agent {
 public:
  Agent(WorkerPlan plan, JobContext job, SignalReader& signals, Console& console);

  // Returns the launcher's exit code once no process of the job is left: 0, that of the first
  // failure, or 128 + the signal that stopped the job. Call it once, on the main thread. Throws
  // LaunchError or SystemError if a worker cannot be started; none is left then.
  int run();

 private:
  void report(const Failure& failure);
  void drain_console(bool is_interrupted);

  WorkerPlan plan_;
  JobContext job_;
  SignalReader& signals_;
  Console& console_;
};

}  // namespace ddp::launcher
