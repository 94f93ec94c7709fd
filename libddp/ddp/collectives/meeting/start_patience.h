// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "ddp/base/log.h"
#include "ddp/base/threads/awake_timer.h"
#include "ddp/base/time.h"

namespace ddp {

// How long a starting rank waits for the others, and when it says so. Of a suspension of this
// process two periods count (AwakeTimer). Not thread-safe.
class StartPatience {
 public:
  using Report = std::function<void(std::string_view)>;
  static constexpr Timeout kPeriod = std::chrono::seconds(5);

  // The time runs from now on. `store` is the meeting place, for messages; it may be empty.
  explicit StartPatience(Timeout timeout, std::string store = "", Timeout period = kPeriod,
                         Report report = logging::warning);

  // How long to wait before the next check, at most `longest`.
  [[nodiscard]] Timeout slice(Timeout longest = Timeout::max());
  [[nodiscard]] bool is_over() { return timer_.look() >= timeout_; }
  // True if a message is due; the next one is then due a period later.
  [[nodiscard]] bool is_due();

  void report(std::string_view text) const { report_(text); }

  void set_store(std::string store) { store_ = std::move(store); }

  [[nodiscard]] Timeout period() const { return period_; }
  // The time since the construction: "5 s".
  [[nodiscard]] std::string waited() const;
  [[nodiscard]] const std::string& store() const { return store_; }
  // "the store at 127.0.0.1:29500".
  [[nodiscard]] std::string place() const {
    return store_.empty() ? "the store" : "the store at " + store_;
  }

 private:
  Clock::time_point begin_ = Clock::now();
  Timeout timeout_;
  AwakeTimer timer_;
  Timeout period_;
  Deadline next_line_;
  std::string store_;
  Report report_;
};

}  // namespace ddp
