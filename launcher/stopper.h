// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ddp/base/time.h"
#include "launcher/process_tree.h"
#include "launcher/worker.h"

namespace ddp::launcher {

// Ends the processes of a job: some patience, SIGTERM, a grace, then SIGKILL again and again until
// nothing is left or kKillTimeout has passed. Reaches the workers' process groups and, through
// /proc, descendants that have left them. The agent must be a child subreaper, so that no orphan
// leaves its tree.
class Stopper {
 public:
  explicit Stopper(const std::vector<Worker>& workers) : workers_(workers) {}

  // Does nothing if it is under way.
  void terminate(Timeout grace, Timeout patience = Timeout(0));
  // The job was asked to end by itself: kills it if it has not within `limit`.
  void expect_end(Timeout limit);
  void kill_now();

  // Does what the clock asks for; next() says when that is.
  void advance();
  [[nodiscard]] std::optional<Deadline> next() const;

  [[nodiscard]] bool is_stopping() const { return phase_ != Phase::kIdle; }
  [[nodiscard]] bool is_killing() const { return phase_ == Phase::kKilling || has_given_up(); }
  [[nodiscard]] bool has_given_up() const { return phase_ == Phase::kGaveUp; }
  // The time to end in, if it kills because that was over.
  [[nodiscard]] std::optional<Timeout> overdue_after() const { return overdue_after_; }

  // The job's living processes.
  [[nodiscard]] std::vector<ProcessStat> survivors() const;

  static constexpr Timeout kKillTimeout{2000};
  static constexpr Timeout kKillInterval{20};

 private:
  enum class Phase { kIdle, kWaiting, kTerminating, kKilling, kGaveUp };

  void kill_overdue();
  void signal_all(int signal_number) const;

  const std::vector<Worker>& workers_;
  Phase phase_ = Phase::kIdle;
  Timeout grace_{};
  std::optional<Timeout> overdue_after_;
  std::optional<Deadline> limit_;  // of kIdle
  std::optional<Deadline> phase_end_;
  std::optional<Deadline> next_kill_;
};

}  // namespace ddp::launcher
