// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>
#include <optional>

namespace ddp {

// While it lives, handles the signals by which schedulers and people talk to a training job:
//
//   SIGTERM, SIGUSR1   please stop
//   SIGINT (Ctrl-C)    please stop; a second one ends the process at once
//   SIGUSR2            please report
//
// Any rank may get a signal. Pass it to begin_step, and all ranks stop at the same step:
//
//   ddp::SignalGuard signals;
//   while (...) {
//     const double factor =
//         ddp.begin_step({.samples = n, .asks_to_stop = signals.stop_requested()});
//     ... backward of factor * mean loss, wait, optimizer ...
//     if (ddp.stop_requested()) break;
//   }
//
// Once this process was asked to stop, SIGPIPE no longer ends it: Ctrl-C also ends the `tee` of
// `train | tee log`, and a line that nobody reads must not end a process that has yet to save.
//
// Under ddp-launch, a job that was asked to stop and ends with 0 on all ranks has the exit code
// 143, whether the launcher got the signal or one of its workers, and it is not started again.
//
// Make it after init_process_group, which would otherwise go on waiting for the other ranks when it
// should stop. Without a SignalGuard the library handles no signal. Only one may exist at a time,
// otherwise std::logic_error. Its destructor restores the previous handlers. SIGINT stays ignored
// if it was, as in a shell script's background jobs.
class SignalGuard {
 public:
  [[nodiscard]] SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  [[nodiscard]] bool stop_requested() const { return stop_signal().has_value(); }
  // The first signal that asked this process to stop.
  [[nodiscard]] std::optional<int> stop_signal() const;
  // True once for each request for a report; several signals before the call count as one.
  [[nodiscard]] bool take_report_request();

 private:
  struct sigaction previous_[4];
  struct sigaction previous_sigpipe_;
};

}  // namespace ddp
