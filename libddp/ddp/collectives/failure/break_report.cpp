// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/break_report.h"

#include <utility>

namespace ddp {

BreakReport::BreakReport(Write write) : write_(std::move(write)) {}

void BreakReport::tell(FlightRecorder& recorder, const std::exception_ptr& error) noexcept {
  std::call_once(told_, [&] {
    recorder.broken();
    if (!error || !write_) return;
    try {
      write_(recorder, error);
    } catch (const std::exception&) {  // such as bad_alloc; the error itself must reach the waits
    }
  });
}

}  // namespace ddp
