// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <functional>
#include <mutex>

#include "ddp/collectives/hang/flight_recorder.h"

namespace ddp {

// What a rank leaves behind when its group breaks. It has to be written before any wait throws the
// error: the process may end right after that, and what the program itself records must come
// second. Files may take as long as a disk does not answer, so whoever tells the error holds no
// lock that a submit, or a wait with a timeout, needs.
//
// Thread-safe.
class BreakReport {
 public:
  // What it throws is ignored.
  using Write = std::function<void(const FlightRecorder&, const std::exception_ptr& error)>;

  explicit BreakReport(Write write = nullptr);

  // The group was broken by this error or, without one, is destroyed, which is only recorded. The
  // first call counts; others wait until it is over.
  void tell(FlightRecorder& recorder, const std::exception_ptr& error) noexcept;

 private:
  Write write_;
  std::once_flag told_;
};

}  // namespace ddp
