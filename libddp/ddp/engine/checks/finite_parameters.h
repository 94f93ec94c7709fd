// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/host_mirror.h"

namespace ddp {

// Warns of parameters that have become infinite or NaN. A training that does not ask for its
// gradients to be checked (NonFinite::kIgnore) would otherwise end as if all were well.
class FiniteParameters {
 public:
  // Both must outlive this object.
  FiniteParameters(ProcessGroup& group, std::span<const Parameter> parameters);

  // Reads the parameters as they are after the work on `stream`, at the beginning of `step`.
  void take(std::uint64_t step, Stream stream);
  // Logs a warning if one was not finite when they were last taken, and returns true then. On CUDA
  // the host waits until they have been read.
  bool warn();

 private:
  std::span<const Parameter> parameters_;
  HostMirror finite_;  // uint8, by parameter
  std::uint64_t taken_in_ = 0;
};

}  // namespace ddp
