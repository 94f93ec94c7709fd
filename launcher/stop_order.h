// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

namespace ddp::launcher {

// What has asked one generation to end, from outside of its workers on this node: a signal to this
// launcher or to another node's, an end on another node, or SIGUSR1, which leaves it to the workers
// themselves.
class StopOrder {
 public:
  // SIGUSR1, to this launcher or another node's. True if it is the first.
  bool request();
  // A signal to this launcher ends the job.
  void interrupt(int signal_number);
  // The same signal was sent to all launchers, and another one has told it before. False if it is
  // another one, or was confirmed.
  bool confirm(int signal_number);
  // The job ends on another node: by a signal to its launcher, if there is one.
  void follow(std::optional<int> signal_number);
  // The job has ended on another node, when nothing more was to be stopped here.
  void note_end_elsewhere() { is_by_nodes_ = true; }
  // Who has ordered it does not wait any longer, for anybody.
  void hurry() { is_hurried_ = true; }

  // What stops the job, wherever it was sent.
  [[nodiscard]] std::optional<int> signal() const { return signal_; }
  [[nodiscard]] bool is_from_keyboard() const;
  // The same if it was sent to this launcher.
  [[nodiscard]] std::optional<int> interrupted_by() const { return interrupted_by_; }
  [[nodiscard]] bool is_by_nodes() const { return is_by_nodes_; }
  [[nodiscard]] bool is_requested() const { return is_requested_; }
  [[nodiscard]] bool is_hurried() const { return is_hurried_; }

  // Whether a worker that this signal has ended has obeyed; `is_killing` says that those are killed
  // who took too long.
  [[nodiscard]] bool asks_for(int signal_number, bool is_killing) const;

 private:
  std::optional<int> signal_;
  std::optional<int> interrupted_by_;
  bool is_by_nodes_ = false;
  bool is_requested_ = false;
  bool is_hurried_ = false;
};

}  // namespace ddp::launcher
