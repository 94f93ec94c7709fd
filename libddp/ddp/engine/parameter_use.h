// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/host_mirror.h"

namespace ddp {

// Which parameters got a gradient on any rank: a byte for each, whose maximum over ranks is taken
// behind the last bucket.
class ParameterUse {
 public:
  ParameterUse(ProcessGroup& group, std::size_t parameters);

  // Collective; asynchronous, behind `producer`. own[i] is 1 if this rank has a gradient of
  // parameter i; `unsettled`: it does not know yet which ones it will have.
  void launch(std::span<const std::uint8_t> own, bool unsettled, Stream producer);
  void wait(Stream consumer);

  // As of the last wait(); these block the host until that is there.
  [[nodiscard]] bool is_used(std::size_t i);
  [[nodiscard]] bool is_unsettled();  // on any rank

 private:
  ProcessGroup& group_;
  Work work_;
  HostMirror map_;  // by parameter, then the unsettled one
};

}  // namespace ddp
