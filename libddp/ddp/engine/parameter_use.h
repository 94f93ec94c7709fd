// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/host_mirror.h"
#include "ddp/engine/reducer.h"

namespace ddp {

// Finds the parameters that got a gradient on any rank. Each has a mark that is not 0 if it did.
// The marks travel behind the gradients of the last bucket, when all of them are known; since that
// bucket is summed over ranks anyway, they need no collective of their own.
class ParameterUse {
 public:
  // The number of elements for the marks of that many parameters.
  static constexpr std::size_t elements(std::size_t parameters) { return parameters + 1; }

  ParameterUse(ProcessGroup& group, const Reducer& reducer);

  // Writes this rank's marks, as the reducer knows them. With kLearning it does not know yet which
  // parameters it will use.
  void write(Stream producer);
  // Writes the marks of a rank that uses no parameter and knows it.
  void write_nothing(Stream producer);
  // Reads the sums of all ranks' marks, once the last bucket is reduced.
  void read(Stream consumer);

  // As of the last read(), or of write() in a world of one. These block the host until that has
  // arrived.
  [[nodiscard]] bool is_used(std::size_t i);
  [[nodiscard]] bool is_unsettled();  // some rank does not know yet

 private:
  const Reducer& reducer_;
  HostMirror marks_;  // float64, by parameter; the last is for is_unsettled()
};

}  // namespace ddp
