// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/time.h"
#include "ddp/store/store.h"

namespace ddp {

struct TcpServerOptions {
  // How long the server polls for the next request after one, before it sleeps.
  std::chrono::microseconds spin = kDefaultStoreSpin;
  // How long the destructor goes on serving clients that are still connected, so that they can read
  // why the others went; it returns once they have disconnected. It takes no new ones.
  Timeout farewell{0};
};

// The server side of TcpStore: one thread, epoll, PyTorch's c10d TCPStore wire protocol (wire.h). A
// client that sends bad input loses its connection and causes a warning, of which one in 10 s is
// written with the number of the others; other clients are not affected. If descriptors run out,
// connections that have said nothing for 5 s are closed. At a loopback address only processes of
// the same user and of root are served (see LoopbackGuard for exceptions). At other addresses
// clients are not authenticated, and the total size of what they store is not limited, so the port
// belongs on a network whose hosts are trusted. Keys, values, requests and unread replies are
// limited (wire.h).
class TcpServer {
 public:
  // Listens on exactly this address (an empty host: every interface; port 0: a free port) and
  // starts serving. Throws SystemError naming the endpoint if it cannot. Each rank holds several
  // connections, and each connection is an open file, so this raises the process's soft limit of
  // open files.
  explicit TcpServer(const Endpoint& endpoint, const TcpServerOptions& options = {});
  // Listens on those of the endpoints that are this host's: a name may have several addresses, and
  // who connects may reach only one of them. The port is given. Throws SystemError naming the first
  // endpoint if none is this host's.
  explicit TcpServer(std::span<const Endpoint> endpoints, const TcpServerOptions& options = {});
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  // The address and port that are bound; of several, the first.
  [[nodiscard]] Endpoint endpoint() const;
  [[nodiscard]] const std::vector<Endpoint>& endpoints() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
