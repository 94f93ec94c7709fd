// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "ddp/base/time.h"
#include "launcher/run/end_watch.h"
#include "launcher/run/job.h"
#include "launcher/run/start_watch.h"
#include "launcher/run/stop_order.h"
#include "launcher/run/stopper.h"
#include "launcher/run/workers.h"
#include "launcher/verdict/casualties.h"
#include "launcher/verdict/failure.h"
#include "launcher/verdict/post_mortem.h"

namespace ddp::launcher {

// How a generation ended on this node. If nothing is set, all workers exited with 0.
struct Outcome {
  std::optional<WorkerFailure> failure = {};  // if a signal stopped the job: of the stop
  std::optional<int> interrupted_by = {};     // a signal
  bool stopped_by_nodes = false;              // because the job ended on another node
  bool stop_requested = false;                // by SIGUSR1 to a launcher, or a signal to a worker
  std::optional<int> late_signal = {};        // came when a failure was already ending the workers
};

// One generation of this node's workers, from their start to their end: forwards their output, and
// stops all as soon as one fails, on this node or another, or a signal asks for it. SIGUSR1 and
// SIGUSR2 go to the workers. It has one thread and one poll loop; only the wait for the workers
// themselves is unbounded. This process must be a child subreaper.
class Generation {
 public:
  // Starts the workers. Throws what Workers() throws.
  Generation(const Job& job, int restart_count);

  // Returns once no process of the generation is left. Call it once, on the main thread.
  Outcome run();

 private:
  void react();
  void wait_for_events();
  void handle_signals();
  void request_stop();
  void request_report();
  void stop_on(int signal_number);
  void interrupt(int signal_number);
  void kill_now();
  void reap();
  void record_end(pid_t pid, int status, const rusage& usage);
  void look_for_stop_request();
  [[nodiscard]] bool was_requested(int status) const;
  [[nodiscard]] std::size_t remaining() const {
    return workers_.all().size() - casualties_.count();
  }
  [[nodiscard]] std::string describe_stop() const;
  void claim_failure();
  void follow_nodes(const OtherNodes::News& news);
  void follow_hurry(const OtherNodes::News& news);
  void look_at_memory();
  void check_start();
  void check_finished(const OtherNodes::News& news);
  void note_stops_elsewhere(const OtherNodes::News& news);
  void check_end();
  void advance_stopper();
  void look_at_survivors(std::optional<Deadline> killed_at);
  [[nodiscard]] std::optional<WorkerFailure> find_failure() const;
  [[nodiscard]] WorkerFailure describe_failure() const;
  [[nodiscard]] bool misses_others(const Ending& ending) const;
  [[nodiscard]] Timeout grace() const;
  [[nodiscard]] Timeout time_to_end() const;
  void say_who_was_killed();
  void say_who_does_not_end();

  Job job_;
  Clock::time_point start_ = Clock::now();
  Workers workers_;
  Stopper stopper_;
  StartWatch start_watch_;
  EndWatch end_watch_;
  Casualties casualties_;
  StopOrder order_;
  Deadline next_memory_look_ = Deadline::after(PostMortem::kBetweenLooks);
  bool has_claimed_ = false;   // has claimed a failure towards the other nodes
  bool has_told_end_ = false;  // has told them that this node's workers have ended
  bool has_children_ = true;
  bool is_finished_ = false;
};

}  // namespace ddp::launcher
