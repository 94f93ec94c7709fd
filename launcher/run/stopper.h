// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ddp/base/time.h"
#include "launcher/processes/process_tree.h"
#include "launcher/run/worker.h"

namespace ddp::launcher {

// Ends the processes of a job: waits for a patience, sends SIGTERM, waits for a grace, then sends
// SIGKILL repeatedly until nothing is left or kKillTimeout has passed. It reaches the workers'
// process groups and, by /proc, descendants that have left them. The agent must be a child
// subreaper, so that orphans stay in its tree.
class Stopper {
 public:
  explicit Stopper(const std::vector<Worker>& workers) : workers_(workers) {}

  // Does nothing if termination has already begun.
  void terminate(Timeout grace, Timeout patience = Timeout(0));
  // The job was asked to end by itself: kills it if it has not ended within `limit`.
  void expect_end(Timeout limit);
  // What is left of that limit; nothing if there is none.
  [[nodiscard]] std::optional<Timeout> time_left() const;
  void kill_now();

  // Does what is due; next() says when to call it again.
  void advance();
  [[nodiscard]] std::optional<Deadline> next() const;

  // When those that have got SIGTERM are killed; nothing before and after.
  [[nodiscard]] std::optional<Deadline> killed_at() const {
    return phase_ == Phase::kTerminating ? phase_end_ : std::nullopt;
  }

  [[nodiscard]] bool is_stopping() const { return phase_ != Phase::kIdle; }
  // The patience is over: the next advance() sends SIGTERM.
  [[nodiscard]] bool is_about_to_terminate() const {
    return phase_ == Phase::kWaiting && phase_end_->passed();
  }
  [[nodiscard]] bool is_killing() const { return phase_ == Phase::kKilling || has_given_up(); }
  [[nodiscard]] bool has_given_up() const { return phase_ == Phase::kGaveUp; }
  // The grace, if it was exceeded and that is why processes are killed.
  [[nodiscard]] std::optional<Timeout> overdue_after() const { return overdue_after_; }

  // True if a worker that exceeded the grace was stopped then, by a signal or a debugger.
  [[nodiscard]] bool was_stopped(int rank) const;

  // The job's living processes.
  [[nodiscard]] std::vector<ProcessStat> survivors() const;

 private:
  enum class Phase { kIdle, kWaiting, kTerminating, kKilling, kGaveUp };

  void kill_overdue();
  void signal_all(int signal_number) const;

  const std::vector<Worker>& workers_;
  Phase phase_ = Phase::kIdle;
  Timeout grace_{};
  std::optional<Timeout> overdue_after_;
  std::vector<int> stopped_ranks_;  // when it was exceeded
  std::optional<Deadline> limit_;   // for kIdle
  std::optional<Deadline> phase_end_;
  std::optional<Deadline> next_kill_;
};

}  // namespace ddp::launcher
