// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/casualties.h"
#include "launcher/console.h"
#include "launcher/log_mux.h"
#include "launcher/other_nodes.h"
#include "launcher/post_mortem.h"
#include "launcher/run_folder.h"
#include "launcher/signals.h"
#include "launcher/start_watch.h"
#include "launcher/stop_order.h"
#include "launcher/stopper.h"
#include "launcher/verdict.h"
#include "launcher/worker.h"
#include "launcher/worker_plan.h"
#include "launcher/worker_slots.h"

namespace ddp::launcher {

// How a generation ended on this node. If nothing is set, all workers exited with 0.
struct Outcome {
  std::optional<WorkerFailure> failure = {};  // if a signal stopped the job: of the stop
  std::optional<int> interrupted_by = {};     // a signal
  bool stopped_by_nodes = false;              // because the job ended on another node
  bool stop_requested = false;                // by SIGUSR1 to a launcher, or a signal to a worker
};

// One generation of this node's workers: starts them, forwards their output, and stops all as soon
// as one fails, on this node or another, or a signal asks for it. SIGUSR1 and SIGUSR2 go to the
// workers. It has one thread and one poll loop; only the wait for the workers themselves is
// unbounded. Makes this process a child subreaper.
class Generation {
 public:
  Generation(const WorkerPlan& plan, const JobLayout& layout, int restart_count, RunFolder& files,
             SignalReader& signals, Console& console, OtherNodes& nodes);

  // Returns once no process of the generation is left. Call it once, on the main thread. Throws
  // LaunchError or SystemError if a worker cannot be started; no worker is left then.
  Outcome run();

 private:
  void start_workers();
  void add_logs(Worker& worker);
  void wait_for_events();
  void handle_signals();
  void request_stop();
  void request_report();
  void stop_on(int signal_number);
  void interrupt(int signal_number);
  void kill_now();
  void reap();
  void record_end(pid_t pid, int status, const rusage& usage);
  void note_stop_request(int rank, const StopRequest& request);
  [[nodiscard]] bool was_requested(int status) const;
  [[nodiscard]] std::vector<pid_t> dying_workers() const;
  [[nodiscard]] std::string remaining_ranks() const;
  [[nodiscard]] std::string describe_stop() const;
  void claim_failure();
  void check_nodes();
  void check_start();
  void check_finished();
  [[nodiscard]] bool others_may_fail();
  [[nodiscard]] std::optional<WorkerFailure> find_failure();
  [[nodiscard]] WorkerFailure describe_failure();
  [[nodiscard]] Timeout grace() const;
  void say_who_was_killed();
  void say_who_does_not_end();

  const WorkerPlan& plan_;
  const JobLayout& layout_;
  Attempt attempt_;
  RunFolder& files_;
  SignalReader& signals_;
  Console& console_;
  OtherNodes& nodes_;
  LogMux logs_;
  std::vector<Worker> workers_;
  Stopper stopper_;
  PostMortem post_mortem_;
  WorkerSlots slots_;
  StartWatch start_watch_;
  Casualties casualties_;
  StopOrder order_;
  bool has_claimed_ = false;   // has claimed a failure towards the other nodes
  bool has_told_end_ = false;  // has told them that this node's workers have ended
  bool has_children_ = true;
  bool is_finished_ = false;
  Clock::time_point start_;
};

}  // namespace ddp::launcher
