// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/base/socket.h"
#include "ddp/store/spin.h"

namespace ddp {

// The server side of TcpStore: one thread, epoll, PyTorch's c10d TCPStore wire protocol (wire.h).
// Bad input costs a client its connection and one log line; it never stalls or stops the others.
// Nobody is authenticated, and what clients store is not bounded: the port belongs on a network
// whose hosts are trusted. Bounded are keys, values, requests and unread replies (wire.h).
class TcpServer {
 public:
  // Listens on exactly this address (an empty host: every interface; port 0: a free port) and
  // starts serving. Throws SystemError naming the endpoint if it cannot. Each client is an open
  // file, and a rank is several: this raises the process's soft limit of those.
  // Between requests it looks for the next one for `spin` before it sleeps; idle, it sleeps.
  explicit TcpServer(const Endpoint& endpoint, std::chrono::microseconds spin = kDefaultStoreSpin);
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  // The address and port really bound.
  [[nodiscard]] Endpoint endpoint() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
