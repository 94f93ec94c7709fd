// SPDX-License-Identifier: MIT
#include "launcher/run/stopper.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace ddp::launcher {

void Stopper::terminate(Timeout grace, Timeout patience) {
  if (is_stopping()) return;
  grace_ = grace;
  phase_ = Phase::kWaiting;
  phase_end_ = Deadline::after(patience);
  advance();
}

void Stopper::expect_end(Timeout limit) {
  grace_ = limit;
  limit_ = Deadline::after(limit);
}

std::optional<Timeout> Stopper::time_left() const {
  return limit_ ? std::optional(limit_->remaining()) : std::nullopt;
}

void Stopper::kill_now() {
  if (phase_ != Phase::kKilling) phase_end_ = Deadline::after(kKillTimeout);
  phase_ = Phase::kKilling;
  next_kill_ = Deadline::after(kKillInterval);
  signal_all(SIGKILL);
}

bool Stopper::was_stopped(int rank) const {
  return std::ranges::find(stopped_ranks_, rank) != stopped_ranks_.end();
}

void Stopper::kill_overdue() {
  overdue_after_ = grace_;
  for (const Worker& worker : workers_) {
    const auto process = worker.has_ended() ? std::nullopt : read_process(worker.pid());
    if (process && process->is_stopped()) stopped_ranks_.push_back(worker.rank());
  }
  kill_now();
}

void Stopper::advance() {
  if (phase_ == Phase::kIdle && limit_ && limit_->passed()) kill_overdue();
  if (phase_ == Phase::kWaiting && phase_end_->passed()) {
    phase_ = Phase::kTerminating;
    phase_end_ = Deadline::after(grace_);
    signal_all(SIGTERM);
  }
  if (phase_ == Phase::kTerminating && phase_end_->passed()) kill_overdue();
  if (phase_ != Phase::kKilling) return;
  if (phase_end_->passed()) {
    phase_ = Phase::kGaveUp;
  } else if (next_kill_->passed()) {
    kill_now();  // orphans of processes that died meanwhile may have appeared
  }
}

std::optional<Deadline> Stopper::next() const {
  if (phase_ == Phase::kWaiting || phase_ == Phase::kTerminating) return phase_end_;
  if (phase_ == Phase::kKilling) return next_kill_;
  return phase_ == Phase::kIdle ? limit_ : std::nullopt;
}

std::vector<ProcessStat> Stopper::survivors() const { return living_descendants(::getpid(), {}); }

// A process group is signalled only until its leader is reaped. After that its number may belong to
// another group, and its remaining processes are found among the survivors.
void Stopper::signal_all(int signal_number) const {
  std::vector<pid_t> groups;
  for (const Worker& worker : workers_) {
    if (worker.has_ended()) continue;
    groups.push_back(worker.pid());
    // A worker that is being loaded may not lead its group yet.
    if (::kill(-worker.pid(), signal_number) != 0) ::kill(worker.pid(), signal_number);
  }
  for (const ProcessStat& process : survivors()) {
    if (std::ranges::find(groups, process.group) == groups.end()) {
      ::kill(process.pid, signal_number);
    }
  }
}

}  // namespace ddp::launcher
