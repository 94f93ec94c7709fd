// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/host_mirror.h"
#include "ddp/engine/reducer.h"

namespace ddp {

// Tells which parameters got a gradient on any rank. Each parameter has a mark, which is nonzero if
// it got one. The marks travel behind the gradients of the last bucket: by then they are known, and
// the bucket is summed over ranks anyway, so they cost no collective of their own.
class ParameterUse {
 public:
  // The number of elements that the marks take: one for each parameter, and one for ParameterUse.
  static constexpr std::size_t elements(std::size_t parameters) { return parameters + 1; }

  // With `is_static`, every step uses the same parameters, and the marks are exchanged only until
  // every rank has learned its own.
  ParameterUse(ProcessGroup& group, const Reducer& reducer, bool is_static);

  // Call before the last bucket is launched. Writes this rank's marks, as the reducer knows them,
  // into the tail of the bucket.
  void write(Stream producer);
  // Call after the last bucket is reduced. Starts to copy the marks of all ranks to the host. In a
  // world of one, which launches no bucket, the marks never leave the host.
  void read(Stream consumer);

  // Whether any rank used parameter i in the step of the last read(). Blocks the host until the
  // marks have arrived.
  [[nodiscard]] bool is_used(std::size_t i);

 private:
  void take_own();
  [[nodiscard]] bool is_some_rank_learning();

  const Reducer& reducer_;
  bool alone_;
  bool is_static_;
  bool is_learned_ = false;  // by every rank
  HostMirror marks_;  // float64: one for each parameter, then the number of ranks that still learn
                      // their uses
};

}  // namespace ddp
