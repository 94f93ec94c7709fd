// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "ddp/base/time.h"
#include "ddp/store/store.h"

namespace ddp {

// Lets one rank of a job report, at most once in `window`, without a common clock. A key of the
// store holds the reporter and its number of reports. A rank that finds the key empty, or unchanged
// for a whole window, may write itself there; if it sees a change late, it only waits longer. Each
// report changes the key first, so that a reporter which was replaced meanwhile notices.
class ReportWindow {
 public:
  ReportWindow(std::shared_ptr<Store> store, int rank, Timeout window);

  // Reads the key. Call it about every second, also without anything to report.
  void look();
  // For a rank that has something to report: tries to become the reporter; true if it is.
  bool lead();
  // True if the reporter may report now; it must then report.
  bool may_report();
  // For one rank, chosen beforehand, while the store does not answer: true if it may report now,
  // since it has seen no report for a window; it must then report. The others hear of it once the
  // store answers look() again.
  bool may_report_without_store();

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
  bool is_unknown_to_others_ = false;  // the last report
  Clock::time_point next_report_;
};

}  // namespace ddp
