// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "ddp/base/time.h"
#include "ddp/store/store.h"

namespace ddp {

// Lets one rank of a job report, and no more often than once in `window`, without a common clock:
// the key holds who reports and how often it has. Whoever finds it empty, or unchanged for a whole
// window, may write itself there; a change that it sees late only makes it wait longer. Each report
// changes the key first, so that a reporter that was replaced meanwhile notices.
class ReportWindow {
 public:
  ReportWindow(std::shared_ptr<Store> store, int rank, Timeout window);

  // Reads the key. To be called about every second, also by those who have nothing to report.
  void look();
  // Tries to become the reporter, for somebody who has something to report; true if this rank is.
  bool lead();
  // True if the reporter may report now: that it does is then taken for granted.
  bool may_report();

 private:
  [[nodiscard]] bool is_reporter() const { return !own_.empty() && seen_ == own_; }
  [[nodiscard]] bool is_unchanged_for_a_window() const;
  bool replace(const std::string& value);
  void see(std::string value);
  [[nodiscard]] std::string token() const;

  std::shared_ptr<Store> store_;
  int rank_;
  Timeout window_;
  std::string seen_;
  Clock::time_point seen_since_;
  std::string own_;  // what this rank wrote last
  int reports_ = 0;
  Clock::time_point next_report_;
};

}  // namespace ddp
