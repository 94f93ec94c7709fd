// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/store/tcp_store.h"

namespace ddp::launcher {

// Where launchers keep what they tell each other, in the store that is the workers' as well.
inline constexpr const char* kLauncherPrefix = "ddp-launch";

// Before the workers of a restart: forgets what the ones before left in the store, which must not
// be taken for news, and says which attempt this is, so that libddp refuses whoever is left of an
// earlier one.
void begin_attempt(TcpStore& store, const std::string& run_id, int restart_count);

}  // namespace ddp::launcher
