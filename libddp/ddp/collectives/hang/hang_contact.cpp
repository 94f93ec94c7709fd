// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/hang_contact.h"

#include <utility>

namespace ddp {

void HangContact::when_overdue(std::function<void()> run_it) {
  const std::lock_guard lock(overdue_mutex_);
  run_it_ = std::move(run_it);
}

void HangContact::remind() const {
  const std::lock_guard lock(overdue_mutex_);
  if (run_it_) run_it_();
}

void HangContact::set_diagnosis(std::string text) {
  const std::lock_guard lock(mutex_);
  diagnosis_ = std::move(text);
}

std::string HangContact::diagnosis() const {
  const std::lock_guard lock(mutex_);
  return diagnosis_;
}

void HangContact::set_awaited(std::vector<int> ranks) {
  const std::lock_guard lock(mutex_);
  awaited_ = std::move(ranks);
}

std::vector<int> HangContact::awaited() const {
  const std::lock_guard lock(mutex_);
  return awaited_;
}

}  // namespace ddp
