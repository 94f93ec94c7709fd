// SPDX-License-Identifier: MIT
#include "launcher/worker_port.h"

namespace ddp::launcher {

Endpoint choose_worker_port(const Endpoint& wanted) {
  const Socket probe = Socket::listen({"", wanted.port});
  return {wanted.host, probe.local_endpoint().port};
}

}  // namespace ddp::launcher
