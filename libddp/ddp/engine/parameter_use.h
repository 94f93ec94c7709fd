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

  ParameterUse(ProcessGroup& group, const Reducer& reducer);

  // This rank's, as the reducer knows them; kLearning: it does not know yet which parameters it
  // will use.
  void write(Stream producer);
  // Nothing more is to be found out: as if nobody used any.
  void write_nothing(Stream producer);
  // Everybody's, once the last bucket is reduced.
  void read(Stream consumer);

  // As of the last read(), or write() in a world of one; these block the host until that is there.
  [[nodiscard]] bool is_used(std::size_t i);
  [[nodiscard]] bool is_unsettled();  // some rank does not know

 private:
  const Reducer& reducer_;
  HostMirror marks_;  // float64, by parameter, then that of what is unsettled
};

}  // namespace ddp
