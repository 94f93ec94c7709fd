// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

namespace ddp::launcher {

// What has ordered one generation to end: a signal to this launcher or another node's, an end on
// another node, or a request after which the workers end by themselves: SIGUSR1 to a launcher, or a
// signal that somebody else sent to a worker.
class StopOrder {
 public:
  // Records that SIGUSR1 came to this launcher or another node's. Returns true the first time.
  bool request();
  // Records that somebody else asked a worker, of this node or another, to stop.
  void note_request_to_worker() { is_worker_asked_ = true; }
  // Records that a signal to this launcher ends the job.
  void interrupt(int signal_number);
  // A scheduler sent the same signal to all launchers, and another launcher's was already followed.
  // False if it is a different signal, or was confirmed before.
  bool confirm(int signal_number);
  // The job ends on another node; with `signal_number` if a signal to its launcher is the reason.
  void follow(std::optional<int> signal_number);
  // The job has ended on another node after this node had nothing left to stop.
  void note_end_elsewhere() { is_by_nodes_ = true; }
  // A signal came when the job was already ending for another reason; the first one counts.
  void note_late(int signal_number);
  // The sender of the order is not willing to wait any longer.
  void hurry() { is_hurried_ = true; }

  // The signal that stops the job, whichever launcher got it.
  [[nodiscard]] std::optional<int> signal() const { return signal_; }
  [[nodiscard]] bool is_from_keyboard() const;
  // That signal, if it was this launcher that got it.
  [[nodiscard]] std::optional<int> interrupted_by() const { return interrupted_by_; }
  // Nothing if signal() ends the job.
  [[nodiscard]] std::optional<int> late_signal() const { return late_signal_; }
  [[nodiscard]] bool is_by_nodes() const { return is_by_nodes_; }
  [[nodiscard]] bool is_requested() const { return is_requested_; }
  // Whether the workers should end by themselves, whoever asked.
  [[nodiscard]] bool is_stop() const { return is_requested_ || is_worker_asked_; }
  [[nodiscard]] bool is_hurried() const { return is_hurried_; }

  // Whether a worker that was ended by this signal has obeyed the order; with `is_killing`, workers
  // that took too long are being killed.
  [[nodiscard]] bool asks_for(int signal_number, bool is_killing) const;

 private:
  std::optional<int> signal_;
  std::optional<int> interrupted_by_;
  std::optional<int> late_signal_;
  bool is_by_nodes_ = false;
  bool is_requested_ = false;
  bool is_worker_asked_ = false;
  bool is_hurried_ = false;
};

}  // namespace ddp::launcher
