// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>

namespace ddp {

// Takes the signals by which schedulers and people talk to a training job, while it lives:
//
//   SIGTERM, SIGUSR1   please stop
//   SIGUSR2            please report
//
// Any rank may get one; pass it on, and all ranks stop at the same step:
//
//   ddp::SignalGuard signals;
//   while (...) {
//     const double factor =
//         ddp.begin_step({.samples = n, .asks_to_stop = signals.stop_requested()});
//     ... backward of factor * mean loss, wait, optimizer ...
//     if (ddp.stop_requested()) break;
//   }
//
// The library takes no signal without it. One at a time: std::logic_error. The handlers before it
// are put back when it ends.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  [[nodiscard]] bool stop_requested() const;
  // True once for each report that was asked for; several signals before the call count once.
  [[nodiscard]] bool take_report_request();

 private:
  struct sigaction previous_[3];
};

}  // namespace ddp
