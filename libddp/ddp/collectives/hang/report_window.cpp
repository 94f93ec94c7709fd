// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/report_window.h"

#include <utility>

namespace ddp {
namespace {

constexpr const char* kWindowKey = "hang/reporter";

}  // namespace

ReportWindow::ReportWindow(std::shared_ptr<Store> store, int rank, Timeout window)
    : store_(std::move(store)), rank_(rank), window_(window) {}

void ReportWindow::look() {
  see(store_->find(kWindowKey).value_or(""));
  if (is_unknown_to_others_ && replace(token())) is_unknown_to_others_ = false;
}

bool ReportWindow::lead() {
  if (is_reporter()) return true;
  return (seen_.empty() || is_unchanged_for_a_window()) && replace(token());
}

bool ReportWindow::may_report() {
  if (!is_reporter() || Clock::now() < next_report_) return false;
  ++reports_;
  if (!replace(token())) return false;
  next_report_ = Clock::now() + window_;
  return true;
}

bool ReportWindow::may_report_without_store() {
  const bool has_seen_report = !seen_.empty() && seen_ != own_ && !is_unchanged_for_a_window();
  if (has_seen_report || Clock::now() < next_report_) return false;
  ++reports_;
  is_unknown_to_others_ = true;
  next_report_ = Clock::now() + window_;
  return true;
}

bool ReportWindow::is_unchanged_for_a_window() const {
  return Clock::now() - seen_since_ > window_;
}

bool ReportWindow::replace(const std::string& value) {
  see(store_->compare_set(kWindowKey, seen_, value));
  if (seen_ != value) return false;
  own_ = value;
  return true;
}

void ReportWindow::see(std::string value) {
  if (value == seen_) return;
  seen_ = std::move(value);
  seen_since_ = Clock::now();
}

std::string ReportWindow::token() const {
  return "rank " + std::to_string(rank_) + ", report " + std::to_string(reports_);
}

}  // namespace ddp
