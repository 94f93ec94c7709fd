// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "ddp/base/time.h"

namespace ddp {

// A warning that others can cause as often as they like, and which must not fill the log: a line is
// written at most once in a period. It counts those that were left out since the last one. The
// destructor writes the last of these, if there is one. Not thread-safe.
class LimitedWarning {
 public:
  explicit LimitedWarning(Timeout period = std::chrono::seconds(10)) : period_(period) {}
  ~LimitedWarning();
  LimitedWarning(const LimitedWarning&) = delete;
  LimitedWarning& operator=(const LimitedWarning&) = delete;

  void log(std::string message);

 private:
  void write(const std::string& message, std::uint64_t left_out);

  Timeout period_;
  Deadline next_ = Deadline::after(Timeout(0));
  std::uint64_t left_out_ = 0;
  std::string last_left_out_;
};

}  // namespace ddp
