// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/store/tcp_store.h"

namespace ddp::launcher {

// The prefix of the launchers' keys in the store, which the workers use, too.
inline constexpr const char* kLauncherPrefix = "ddp-launch";

// Before a restart: deletes the keys that the previous workers left in the store, which would look
// like news, and records the attempt, so that libddp refuses leftover workers of an earlier one.
// Queues stay, since the protocol does not list them; libddp has none.
void begin_attempt(TcpStore& store, const std::string& run_id, int restart_count);

}  // namespace ddp::launcher
