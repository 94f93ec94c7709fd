// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/host_mirror.h"
#include "ddp/engine/reducer.h"

namespace ddp {

// Which parameters got a gradient on any rank: a number for each, not 0 if it did, that travels
// behind the gradients of the last bucket, where everything is known and a sum over ranks is made
// anyway. So it costs no collective.
class ParameterUse {
 public:
  // Elements that the marks of so many parameters take.
  static constexpr std::size_t elements(std::size_t parameters) { return parameters + 1; }

  // If `settles`, the marks are exchanged only until every rank knows which parameters it uses.
  ParameterUse(ProcessGroup& group, const Reducer& reducer, bool settles);

  // Before the last bucket is launched: this rank's marks, as the reducer knows them.
  void write(Stream producer);
  // Once the last bucket is reduced: everybody's.
  void read(Stream consumer);

  // As of the last read(); blocks the host until that is there.
  [[nodiscard]] bool is_used(std::size_t i);

 private:
  [[nodiscard]] bool is_some_rank_learning();

  const Reducer& reducer_;
  bool alone_;
  bool settles_;
  bool is_settled_ = false;
  HostMirror marks_;  // float64: one for each parameter, then one of ranks that still learn
};

}  // namespace ddp
