// SPDX-License-Identifier: MIT
#include "store/operations.h"

#include <fmt/core.h>

#include <memory>

#include "ddp/store/tcp_store.h"

namespace ddp::bench {

std::vector<Operation> operations() {
  const std::string value(16, 'v');
  const std::size_t key = 8 + 1 + 11;  // its length, 8 bytes, then "/" and "client_0000"
  const std::size_t set = 1 + key + 8 + value.size();
  const std::size_t keys = 1 + 8 + key;
  const auto add = [](Store& store, const std::string& name) { store.add(name, 1); };
  const auto check = [](Store& store, const std::string& name) {
    static_cast<void>(store.has(name));
  };
  const auto set_and_get = [value](Store& store, const std::string& name) {
    store.set(name, value);
    static_cast<void>(store.get(name));
  };
  return {
      {"add", add, {{1 + key + 8, 8}}},
      {"check", check, {{keys, 1}}},
      // SET has no reply, so it is counted as part of the WAIT that follows it. Then comes the GET.
      {"set+get", set_and_get, {{set + keys, 1}, {1 + key, 8 + value.size()}}},
  };
}

Clients ping_pong_clients(const Operation& operation, std::size_t count) {
  Clients clients;
  for (std::size_t i = 0; i < count; ++i) {
    const auto ping_pong = std::make_shared<PingPong>(operation.exchanges);
    clients.emplace_back([ping_pong] { ping_pong->run(); });
  }
  return clients;
}

Clients store_clients(const Operation& operation, std::size_t count, const TcpServer& server,
                      std::chrono::microseconds spin) {
  Clients clients;
  for (std::size_t i = 0; i < count; ++i) {
    const auto store = std::make_shared<TcpStore>(server.endpoint(), TcpStoreOptions{.spin = spin});
    const std::string key = fmt::format("client_{:04}", i);
    clients.emplace_back([store, key, run = operation.run] { run(*store, key); });
  }
  return clients;
}

}  // namespace ddp::bench
