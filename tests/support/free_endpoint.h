// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/store/tcp_server.h"

namespace ddp::test {

// Where nothing listens: most likely nobody takes the port that was just free.
inline Endpoint free_endpoint() {
  const TcpServer server({"127.0.0.1", 0});
  return server.endpoint();
}

}  // namespace ddp::test
