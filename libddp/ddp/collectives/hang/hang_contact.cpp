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
  const std::lock_guard lock(diagnosis_mutex_);
  diagnosis_ = std::move(text);
}

std::string HangContact::diagnosis() const {
  const std::lock_guard lock(diagnosis_mutex_);
  return diagnosis_;
}

}  // namespace ddp
