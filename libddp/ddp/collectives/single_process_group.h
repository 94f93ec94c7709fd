// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/collectives/group_config.h"

namespace ddp {

// A world of one, on any device: no thread, no communicator. What works in place does nothing;
// the rest is one copy on the producer's stream.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_single_process_group(GroupConfig config);

}  // namespace ddp
