// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace ddp {

// Shared by the hang watch and a group's backend, for operations that are pending for long. Every
// function may be called from any thread.
class HangContact {
 public:
  // Some backends run an operation only when a thread waits for it. When such an operation is
  // overdue, the hang watch calls `run_it`, by remind(); it must not wait for other ranks. Null
  // removes it: once this has returned, it is not called any more.
  void when_overdue(std::function<void()> run_it);
  void remind() const;

  // Why the oldest operation is not done, as the hang watch found out; empty if it does not know.
  // The error at the operation's timeout quotes this text.
  void set_diagnosis(std::string text);
  [[nodiscard]] std::string diagnosis() const;

  // With whose data a collective goes on, or who is to take this rank's, while a backend moves none
  // over the network: ranks of the job. Two that await each other are cut off from each other.
  void set_awaited(std::vector<int> ranks);
  [[nodiscard]] std::vector<int> awaited() const;

 private:
  mutable std::mutex overdue_mutex_;  // held while run_it_ runs
  std::function<void()> run_it_;      // under overdue_mutex_
  mutable std::mutex mutex_;
  std::string diagnosis_;     // under mutex_
  std::vector<int> awaited_;  // under mutex_
};

}  // namespace ddp
