// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "ddp/collectives/queue/queued_process_group.h"

namespace ddp {

// True if this build contains the Gloo backend.
[[nodiscard]] bool gloo_is_compiled_in();

// CPU ranks on several hosts over TCP, by Gloo. `address` is this host's, on the interface to use.
// Collective: all ranks of `config` call it. world_size >= 2.
[[nodiscard]] std::shared_ptr<QueuedProcessGroup> make_gloo_process_group(GroupConfig config,
                                                                          std::string address);

}  // namespace ddp
