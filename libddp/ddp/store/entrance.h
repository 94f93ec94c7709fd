// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/net/socket.h"
#include "ddp/store/loopback_guard.h"

namespace ddp {

// Where clients come to the server of a store.
struct Entrance {
  explicit Entrance(const Endpoint& endpoint) : socket(Socket::listen(endpoint)) {}

  Socket socket;
  std::optional<LoopbackGuard> guard = LoopbackGuard::of(socket);
};

// At those of the endpoints that are this host's. Throws SystemError naming the first endpoint if
// none is.
[[nodiscard]] std::vector<Entrance> open_entrances(std::span<const Endpoint> endpoints);

}  // namespace ddp
