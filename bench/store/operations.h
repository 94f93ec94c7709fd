// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ddp/store/store.h"
#include "ddp/store/tcp_server.h"
#include "store/ping_pong.h"

namespace ddp::bench {

// An operation that a client repeats, and the messages that it sends and receives (wire.h).
struct Operation {
  std::string name;
  std::function<void(Store&, const std::string& key)> run;
  std::vector<PingPong::Exchange> exchanges;
};

[[nodiscard]] std::vector<Operation> operations();

// One function per client, which makes one operation. It owns the client's connection.
using Clients = std::vector<std::function<void()>>;

[[nodiscard]] Clients ping_pong_clients(const Operation& operation, std::size_t count);
[[nodiscard]] Clients store_clients(const Operation& operation, std::size_t count,
                                    const TcpServer& server, std::chrono::microseconds spin);

}  // namespace ddp::bench
