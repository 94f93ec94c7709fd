// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "ddp/collectives/queue/queued_process_group.h"

namespace ddp {

// CPU ranks on several hosts, connected by TCP. `address` is this host's, on the interface to use.
// Collective: all ranks of `config` call it. world_size >= 2.
[[nodiscard]] std::shared_ptr<QueuedProcessGroup> make_tcp_process_group(GroupConfig config,
                                                                         std::string address);

}  // namespace ddp
