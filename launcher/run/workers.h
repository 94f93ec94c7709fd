// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "launcher/output/log_mux.h"
#include "launcher/plan/attempt_folder.h"
#include "launcher/run/job.h"
#include "launcher/run/worker.h"
#include "launcher/run/worker_slots.h"
#include "launcher/verdict/failure.h"
#include "launcher/verdict/post_mortem.h"

namespace ddp::launcher {

// The workers of one generation on this node: starts them, reads their output, and knows what each
// has noted and left behind. Decides nothing. Ranks are those of the job.
class Workers {
 public:
  // Starts them. Returns early if a signal comes that ends the job: then some may not have left our
  // session yet, nor executed the program. Call it on the main thread. Throws LaunchError or
  // SystemError if one cannot be started; no worker is left then.
  Workers(const Job& job, int restart_count);

  [[nodiscard]] const std::vector<Worker>& all() const { return workers_; }
  [[nodiscard]] LogMux& logs() { return logs_; }

  // Signals all workers that have not ended, and returns how many these are.
  std::size_t signal_all(int signal_number) const;
  // Signals one of them, and returns its rank; nothing if all have ended.
  std::optional<int> signal_one(int signal_number) const;

  // Those that are dead but not yet reaped. A killed process closes its sockets before it can be
  // reaped, so a cause may be reaped after its consequence.
  [[nodiscard]] std::vector<pid_t> dying() const;
  // Ranks that wait for others in init_process_group.
  [[nodiscard]] std::vector<int> waiting_to_meet() const;
  // What a worker has noted so far.
  [[nodiscard]] WorkerSlot::Values noted(int rank) const;

  // Call it right after the process was reaped. Nothing if that is no worker, but an adopted
  // orphan.
  [[nodiscard]] std::optional<Ending> record_end(pid_t pid, int status, const rusage& usage);
  // To be called every PostMortem::kBetweenLooks.
  void look_at_memory() { post_mortem_.look(); }
  // Completes a failure by what its first worker has left: its step, frames, last lines and files.
  void add_traces(WorkerFailure& failure) const;

 private:
  void start(const Attempt& attempt);
  [[nodiscard]] bool wait_until_loaded();
  void read_output(Worker& worker);
  [[nodiscard]] int local_rank(int rank) const { return rank - job_.layout.first_rank; }

  Job job_;
  AttemptFolder folder_;
  LogMux logs_;
  PostMortem post_mortem_;
  WorkerSlots slots_;
  std::vector<Worker> workers_;  // by local rank
};

}  // namespace ddp::launcher
