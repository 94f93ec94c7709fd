// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/base/time.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/signal_guard.h"

namespace train {

// Whether a signal has asked some rank to stop, in work that has no steps of the engine, such as an
// evaluation. Ranks learn of it at the same batch, about half a second after the signal: they ask
// each other by a collective, after the first batch and then after as many as the slowest of them
// has done in that time. Both arguments must outlive it.
class StopPoll {
 public:
  StopPoll(ddp::ProcessGroup& group, const ddp::SignalGuard& signals);

  // All ranks call it after each batch, equally often.
  [[nodiscard]] bool stop_requested();

 private:
  ddp::ProcessGroup& group_;
  const ddp::SignalGuard& signals_;
  ddp::Clock::time_point asked_;
  std::int64_t batches_ = 0;   // since then
  std::int64_t interval_ = 1;  // in batches
};

}  // namespace train
