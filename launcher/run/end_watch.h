// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddp/base/system/process_status.h"
#include "ddp/base/time.h"
#include "launcher/run/worker.h"

namespace ddp::launcher {

// Finds what keeps a job from its end once a worker has ended: workers that are stopped (SIGSTOP),
// which no rank's timeout will report when the others have ended, and processes that the workers
// have left behind and that have been asked to end. Says each of the two once.
class EndWatch {
 public:
  // A worker has ended. From now on the rest is looked at every kPeriod.
  void note_end();

  // When the next look is due; nothing if none is needed.
  [[nodiscard]] std::optional<Deadline> next() const { return next_; }
  [[nodiscard]] bool is_due() const { return next_ && next_->passed(); }

  // The sentence about workers that are stopped, or an empty text.
  [[nodiscard]] std::string look_at_workers(const std::vector<Worker>& workers);
  // All workers have ended. The sentence about these processes, or an empty text.
  [[nodiscard]] std::string look_at_survivors(const std::vector<ProcessStat>& survivors,
                                              std::optional<Deadline> killed_at);

  static constexpr Timeout kPeriod{2000};

 private:
  bool has_told_stopped_ = false;
  bool has_told_survivors_ = false;
  std::optional<Deadline> next_;
};

}  // namespace ddp::launcher
