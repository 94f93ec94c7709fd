// SPDX-License-Identifier: MIT
#include "launcher/nodes/worker_keys.h"

namespace ddp::launcher {

void begin_attempt(TcpStore& store, const std::string& run_id, int restart_count) {
  const std::string ours = std::string(kLauncherPrefix) + "/";
  for (const std::string& key : store.list_keys()) {
    if (!key.starts_with(ours)) store.delete_key(key);
  }
  store.set("ddp/" + run_id + "/attempt", std::to_string(restart_count));
}

}  // namespace ddp::launcher
