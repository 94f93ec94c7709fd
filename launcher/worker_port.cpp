// SPDX-License-Identifier: MIT
#include "launcher/worker_port.h"

#include "launcher/store_port.h"

namespace ddp::launcher {

// Starts a server although none is needed, because serve_store() explains what is wrong with a
// port.
Endpoint choose_worker_port(const Endpoint& wanted) {
  return {wanted.host, serve_store({"", wanted.port})->endpoint().port};
}

}  // namespace ddp::launcher
