// SPDX-License-Identifier: MIT
#include "launcher/run/stop_order.h"

#include <csignal>
#include <utility>

#include "launcher/processes/signals.h"

namespace ddp::launcher {

bool StopOrder::request() { return !std::exchange(is_requested_, true); }

void StopOrder::interrupt(int signal_number) { interrupted_by_ = signal_ = signal_number; }

bool StopOrder::confirm(int signal_number) {
  if (interrupted_by_ || signal_ != signal_number) return false;
  interrupted_by_ = signal_number;
  return true;
}

void StopOrder::follow(std::optional<int> signal_number) {
  is_by_nodes_ = true;
  signal_ = signal_number;
}

void StopOrder::note_late(int signal_number) {
  if (!signal_ && !late_signal_) late_signal_ = signal_number;
}

bool StopOrder::is_from_keyboard() const { return signal_ && launcher::is_from_keyboard(*signal_); }

bool StopOrder::asks_for(int signal_number, bool is_killing) const {
  if (signal_number == SIGUSR1) return is_requested_;
  if (signal_number == SIGKILL) return is_killing && (signal_ || is_requested_);
  if (signal_number == SIGTERM) return signal_ || is_requested_;
  return signal_ == signal_number;
}

}  // namespace ddp::launcher
