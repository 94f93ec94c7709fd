// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <mutex>
#include <string>

namespace ddp {

// Where the hang watch and a group's backend meet, when an operation is pending for long. Every
// function may be called from any thread.
class HangContact {
 public:
  // Some backends run an operation only when somebody waits for it. When such an operation is
  // overdue, the hang watch calls `run_it`, by remind(). Null removes it: it is not called any more
  // once this has returned.
  void when_overdue(std::function<void()> run_it);
  void remind() const;

  // Why the oldest operation is not done, as the hang watch found out; empty if it does not know.
  // The error at the operation's timeout quotes it.
  void set_diagnosis(std::string text);
  [[nodiscard]] std::string diagnosis() const;

 private:
  mutable std::mutex overdue_mutex_;  // held while run_it_ runs, which must not wait for the others
  std::function<void()> run_it_;      // under overdue_mutex_
  mutable std::mutex diagnosis_mutex_;
  std::string diagnosis_;  // under diagnosis_mutex_
};

}  // namespace ddp
