// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

#include "ddp/base/threads/awake_timer.h"
#include "ddp/base/time.h"
#include "launcher/output/console.h"
#include "launcher/processes/signals.h"

namespace ddp::launcher {

// How long a launcher waits for the others, what it prints meanwhile, and what ends the wait. Of a
// suspension ten seconds count (AwakeTimer).
class Patience {
 public:
  Patience(Timeout timeout, SignalReader& signals, Console& console);

  // Sleeps until the next check. Prints `state`, which is called every few seconds. Throws
  // LaunchError when the time is over (with the state and the time waited), or when a signal has
  // come that ends the job.
  void wait(const std::function<std::string()>& state, Timeout pause = kBetweenLooks);

  // The same without the wait, while something else waits; throws only after a signal.
  void look(const std::function<std::string()>& state);
  [[nodiscard]] Timeout remaining();

  static constexpr Timeout kBetweenLooks{50};

 private:
  void throw_if_interrupted();

  Timeout timeout_;
  AwakeTimer timer_;
  Deadline next_remark_;
  SignalReader& signals_;
  Console& console_;
};

}  // namespace ddp::launcher
